#include "aspen/ops/reduce/prod_grad.cpu.h"

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/reduction.h"
#include "aspen/ops/reduce/reduce.h"

#define ASPEN_ISA_FILE "aspen/ops/reduce/prod_grad_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {

std::unique_ptr<Kernel> make_prod_grad(const KernelRequest& request, std::string& why) {
  const TensorType& x = request.inputs[0].type;
  if (x.dtype != DType::kF32 || x.numel() == 0) {
    why = fmt::format("reduce_prod_grad: no vector loop for {}", to_string(x));
    return nullptr;
  }
  ReductionPlan plan(x.shape, request.attrs.as<ReduceAttrs>().axes);
  ReductionParts parts(plan, kMathCost, 256);
  return make_kernel(
      [plan, parts](const KernelArgs& args) {
        auto *x = static_cast<const float*>(args.inputs[0]), *g = static_cast<const float*>(args.inputs[1]);
        auto* dx = static_cast<float*>(args.outputs[0]);
        parts.for_each(args, [&](const ReductionPart& part) {
          if (plan.by_rows()) return ASPEN_BEST(prod_grad_rows)(plan, part, x, g, dx);
          ASPEN_BEST(prod_grad_columns)(plan, part, x, g, dx, static_cast<double*>(args.workspace) + 2 * part.scratch);
        });
      },
      plan.by_rows() ? 0 : static_cast<std::size_t>(2 * parts.scratch_size()) * sizeof(double));
}

}  // namespace aspen
