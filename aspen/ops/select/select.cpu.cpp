#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"

namespace aspen {
namespace {

using SelectLoop = void (*)(const std::uint8_t* condition, std::int64_t dc, const void* x, std::int64_t dx,
                            const void* y, std::int64_t dy, void* z, std::int64_t n);

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/select/select_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

std::unique_ptr<Kernel> make_select(const KernelRequest& request, std::string& why) {
  std::size_t bytes = size_of(request.outputs[0].dtype);
  SelectLoop loop = ASPEN_BEST(find_select)(bytes);
  if (loop == nullptr) {
    why = fmt::format("select: no vector loop for {}", to_string(request.outputs[0]));
    return nullptr;
  }
  const auto& in = request.inputs;
  ChunkedRows<3> chunked(
      broadcast_rows<3>(request.outputs[0].shape, {&in[0].type.shape, &in[1].type.shape, &in[2].type.shape}),
      kMoveCost);
  return make_kernel([chunked, loop, size = static_cast<std::int64_t>(bytes)](const KernelArgs& args) {
    auto [dc, dx, dy] = chunked.rows().strides();
    auto place = [&](std::size_t input, std::int64_t offset) {
      return static_cast<const std::byte*>(args.inputs[input]) + offset * size;
    };
    chunked.for_each_piece(
        args, [&, dc = dc, dx = dx, dy = dy](std::int64_t first, const auto& offsets, std::int64_t n) {
          loop(static_cast<const std::uint8_t*>(args.inputs[0]) + offsets[0], dc, place(1, offsets[1]), dx,
               place(2, offsets[2]), dy, static_cast<std::byte*>(args.outputs[0]) + first * size, n);
        });
  });
}

}  // namespace

void register_select_cpu(KernelRegistry& kernels) { kernels.add("select", make_select); }

}  // namespace aspen
