#include "aspen/ops/addcmul/addcmul.h"

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/widened.h"

namespace aspen {
namespace {

using AddcmulLoop = void (*)(const float* x, const float* a, const float* b, float* y, std::int64_t n, float scale);

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/addcmul/addcmul_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

std::unique_ptr<Kernel> make_addcmul(const KernelRequest& request, std::string& why) {
  if (request.outputs[0].dtype != DType::kF32) {
    why = fmt::format("addcmul: no vector loop for {}", to_string(request.outputs[0]));
    return nullptr;
  }
  const auto& in = request.inputs;
  ChunkedRows<3> chunked(
      broadcast_rows<3>(request.outputs[0].shape, {&in[0].type.shape, &in[1].type.shape, &in[2].type.shape}),
      kMoveCost);
  auto [dx, da, db] = chunked.rows().strides();
  AddcmulLoop loop = ASPEN_BEST(find_addcmul)(dx != 0, da != 0, db != 0);
  auto scale = static_cast<float>(request.attrs.as<AddcmulAttrs>().scale);
  return make_kernel([chunked, loop, scale](const KernelArgs& args) {
    auto at = [&](std::size_t input, const auto& offsets) {
      return static_cast<const float*>(args.inputs[input]) + offsets[input];
    };
    chunked.for_each_piece(args, [&](std::int64_t first, const auto& offsets, std::int64_t n) {
      loop(at(0, offsets), at(1, offsets), at(2, offsets), static_cast<float*>(args.outputs[0]) + first, n, scale);
    });
  });
}

}  // namespace

void register_addcmul_cpu(KernelRegistry& kernels) { add_with_half(kernels, "addcmul", make_addcmul); }

}  // namespace aspen
