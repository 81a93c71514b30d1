#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"

#define ASPEN_ISA_FILE "aspen/ops/select/select_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

std::unique_ptr<Kernel> make_select(const KernelRequest& request, std::string& why) {
  if (request.outputs[0].dtype != DType::kF32) {
    why = fmt::format("select: the vector loop takes f32, not {}", to_string(request.outputs[0]));
    return nullptr;
  }
  const auto& in = request.inputs;
  ChunkedRows<3> chunked(
      broadcast_rows<3>(request.outputs[0].shape, {&in[0].type.shape, &in[1].type.shape, &in[2].type.shape}),
      kMoveCost);
  return make_kernel([chunked](const KernelArgs& args) {
    auto [dc, dx, dy] = chunked.rows().strides();
    chunked.for_each_piece(
        args, [&, dc = dc, dx = dx, dy = dy](std::int64_t first, const auto& offsets, std::int64_t n) {
          ASPEN_BEST(select_loop)
          (static_cast<const bool*>(args.inputs[0]) + offsets[0], dc,
           static_cast<const float*>(args.inputs[1]) + offsets[1], dx,
           static_cast<const float*>(args.inputs[2]) + offsets[2], dy, static_cast<float*>(args.outputs[0]) + first, n);
        });
  });
}

}  // namespace

void register_select_cpu(KernelRegistry& kernels) { kernels.add("select", make_select); }

}  // namespace aspen
