// Sums and extremes of float32; other types and reductions run on the reference.
#include "aspen/ops/reduce/reduce.h"

#include <string_view>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/reduction.h"

namespace aspen {
namespace {

using ReduceFunction = void (*)(const ReductionPlan& plan, const float* x, float* y);

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/reduce/reduce_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

std::unique_ptr<Kernel> make_reduction(const KernelRequest& request, std::string& why) {
  const TensorType& x = request.inputs[0].type;
  if (x.dtype != DType::kF32 || x.numel() == 0) {
    why = fmt::format("{}: the vector loops take f32 with at least one element, not {}", request.op, to_string(x));
    return nullptr;
  }
  ReductionPlan plan(x.shape, request.attrs.as<ReduceAttrs>().axes);
  ReduceFunction reduce = ASPEN_BEST(find_reduction)(request.op);
  return make_kernel([plan, reduce](const KernelArgs& args) {
    reduce(plan, static_cast<const float*>(args.inputs[0]), static_cast<float*>(args.outputs[0]));
  });
}

}  // namespace

void register_reduce_cpu(KernelRegistry& kernels) {
  for (const char* op : {"reduce_sum", "reduce_max", "reduce_min"}) kernels.add(op, make_reduction);
}

}  // namespace aspen
