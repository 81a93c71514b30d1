// full: one number for many elements, as the gradient of a mean is.
#include "aspen/ops/source/source.h"

#include <bit>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/api/convert.h"
#include "aspen/backends/cpu/chunks.h"

#define ASPEN_ISA_FILE "aspen/ops/source/source_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

// Elements as integers of their size: bits are all that matters.
template <class Bits, class T>
std::unique_ptr<Kernel> make_fill(std::int64_t n, T value) {
  double cost = kMoveCost / 4 * sizeof(T);
  return make_kernel([bits = std::bit_cast<Bits>(value), chunks = cut_elements(n, cost)](const KernelArgs& args) {
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      ASPEN_BEST(fill<Bits>)(static_cast<Bits*>(args.outputs[0]) + chunk.begin, chunk.size(), bits);
    });
  });
}

std::unique_ptr<Kernel> make_full(const KernelRequest& request, std::string&) {
  const TensorType& y = request.outputs[0];
  return dispatch_stored(y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto value = convert<T>(request.attrs.as<FullAttrs>().value);
    if constexpr (sizeof(T) == 1) return make_fill<std::uint8_t>(y.numel(), value);
    if constexpr (sizeof(T) == 2) return make_fill<std::uint16_t>(y.numel(), value);
    if constexpr (sizeof(T) == 4) return make_fill<std::uint32_t>(y.numel(), value);
    if constexpr (sizeof(T) == 8) return make_fill<std::uint64_t>(y.numel(), value);
  });
}

}  // namespace

void register_source_cpu(KernelRegistry& kernels) { kernels.add("full", make_full); }

}  // namespace aspen
