// Tensors of one value: written by all threads of the device, since that is bound by memory.
#include <algorithm>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/api/convert.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/ops/source/source.h"

namespace aspen {
namespace {

std::unique_ptr<Kernel> make_full(const KernelRequest& request, std::string&) {
  std::unique_ptr<Kernel> kernel;
  dispatch_stored(request.outputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T value = convert<T>(request.attrs.as<FullAttrs>().value);
    const Chunks chunks = cut_elements(request.outputs[0].numel(), kReadCost);
    kernel = make_kernel([value, chunks](const KernelArgs& args) {
      auto* y = static_cast<T*>(args.outputs[0]);
      for_each_chunk(args, chunks, [&](const Chunk& chunk) { std::fill(y + chunk.begin, y + chunk.end, value); });
    });
  });
  return kernel;
}

}  // namespace

void register_source_cpu(KernelRegistry& kernels) { kernels.add("full", make_full); }

}  // namespace aspen
