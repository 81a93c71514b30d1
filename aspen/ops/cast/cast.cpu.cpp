#include "aspen/ops/cast/cast.h"

#include <type_traits>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/elementwise.h"
#include "aspen/base/wide_integers.h"

namespace aspen {
namespace {

using CastLoop = void (*)(const void* from, void* to, std::int64_t n);

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/cast/cast_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

std::unique_ptr<Kernel> make_cast(const KernelRequest& request, std::string& why) {
  const TensorType& x = request.inputs[0].type;
  CastLoop loop = ASPEN_BEST(find_cast)(x.dtype, request.outputs[0].dtype);
  if (loop == nullptr) {
    why = fmt::format("cast: no vector loop from {} to {}", name_of(x.dtype), name_of(request.outputs[0].dtype));
    return nullptr;
  }
  auto from_size = static_cast<std::int64_t>(size_of(x.dtype));
  auto to_size = static_cast<std::int64_t>(size_of(request.outputs[0].dtype));
  return make_kernel([=, chunks = cut_elements(x.numel(), kMoveCost)](const KernelArgs& args) {
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      loop(static_cast<const std::byte*>(args.inputs[0]) + chunk.begin * from_size,
           static_cast<std::byte*>(args.outputs[0]) + chunk.begin * to_size, chunk.size());
    });
  });
}

std::unique_ptr<Kernel> make_narrow(const KernelRequest& request, std::string&) {
  const Chunks chunks = cut_elements(request.outputs[0].numel(), kMoveCost);
  return make_kernel(
      [chunks, whose = fmt::format("input \"{}\"", request.attrs.as<NarrowAttrs>().input)](const KernelArgs& args) {
        for_each_chunk(args, chunks, [&](const Chunk& chunk) {
          const auto* x = static_cast<const std::int64_t*>(args.inputs[0]) + chunk.begin;
          auto* y = static_cast<std::int32_t*>(args.outputs[0]) + chunk.begin;
          if (!ASPEN_BEST(narrow_integers_loop)(x, chunk.size(), y)) fail_too_wide(x, chunk.size(), whose);
        });
      });
}

}  // namespace

void register_cast_cpu(KernelRegistry& kernels) {
  kernels.add("cast", make_cast);
  kernels.add("narrow", make_narrow);
}

}  // namespace aspen
