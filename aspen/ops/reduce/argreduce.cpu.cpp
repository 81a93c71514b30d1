#include "aspen/ops/reduce/argreduce.cpu.h"

#include "aspen/backends/cpu/line_blocks.h"
#include "aspen/ops/reduce/reduce.h"

namespace aspen {
namespace {

using ArgLoop = void (*)(const LineBlock& block, const KernelArgs& args);

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/reduce/argreduce_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {

std::unique_ptr<Kernel> make_argreduce(const KernelRequest& request, std::string& why) {
  const auto& attrs = request.attrs.as<ArgReduceAttrs>();
  ArgLoop loop = ASPEN_BEST(find_argreduce)(request.inputs[0].type.dtype, attrs.max);
  return make_line_kernel(request, why, attrs.axis, loop);
}

}  // namespace aspen
