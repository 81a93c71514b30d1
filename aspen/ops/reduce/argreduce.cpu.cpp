#include "aspen/ops/reduce/argreduce.cpu.h"

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/line_blocks.h"
#include "aspen/ops/reduce/reduce.h"

namespace aspen {
namespace {

using ArgLoop = void (*)(const LineBlock& block, const void* x, std::int32_t* index);

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/reduce/argreduce_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {

std::unique_ptr<Kernel> make_argreduce(const KernelRequest& request, std::string& why) {
  const TensorType& x = request.inputs[0].type;
  const auto& attrs = request.attrs.as<ArgReduceAttrs>();
  ArgLoop loop = ASPEN_BEST(find_argreduce)(x.dtype, attrs.max);
  if (loop == nullptr) {
    why = fmt::format("argreduce: no vector loop for {}", to_string(x));
    return nullptr;
  }
  LineBlocks blocks(AxisLines(x.shape, attrs.axis, "argreduce"), kMoveCost);
  return make_kernel([blocks, loop](const KernelArgs& args) {
    blocks.for_each(args, [&](const LineBlock& block) {
      loop(block, args.inputs[0], static_cast<std::int32_t*>(args.outputs[0]));
    });
  });
}

}  // namespace aspen
