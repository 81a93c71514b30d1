#include "aspen/ops/normalize/normalize.h"

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/reduction.h"
#include "aspen/backends/cpu/widened.h"

#define ASPEN_ISA_FILE "aspen/ops/normalize/normalize_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

bool declines(const KernelRequest& request, std::string& why) {
  const TensorType& x = request.inputs[0].type;
  if (x.dtype == DType::kF32 && x.numel() > 0) return false;
  why = fmt::format("{}: the vector loops take f32 with at least one element, not {}", request.op, to_string(x));
  return true;
}

ReductionPlan plan_of(const KernelRequest& request) {
  return ReductionPlan(request.inputs[0].type.shape, request.attrs.as<NormalizeAttrs>().axes);
}

ReductionParts parts_of(const ReductionPlan& plan) { return ReductionParts(plan, kMoveCost, 1024); }

std::size_t column_workspace(const ReductionPlan& plan, const ReductionParts& parts) {
  return plan.by_rows() ? 0 : static_cast<std::size_t>(2 * parts.scratch_size()) * sizeof(double);
}

double* column_sums(const KernelArgs& args, const ReductionPart& part) {
  return static_cast<double*>(args.workspace) + 2 * part.scratch;
}

std::unique_ptr<Kernel> make_normalize(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  ReductionPlan plan = plan_of(request);
  ReductionParts parts = parts_of(plan);
  double epsilon = request.attrs.as<NormalizeAttrs>().epsilon;
  return make_kernel(
      [plan, parts, epsilon, few = ASPEN_BEST(has_few_columns)(plan)](const KernelArgs& args) {
        auto* x = static_cast<const float*>(args.inputs[0]);
        auto *y = static_cast<float*>(args.outputs[0]), *mean = static_cast<float*>(args.outputs[1]);
        auto* rstd = static_cast<float*>(args.outputs[2]);
        parts.for_each(args, [&](const ReductionPart& part) {
          if (plan.by_rows()) return ASPEN_BEST(normalize_rows)(plan, part, epsilon, x, y, mean, rstd);
          if (few) return ASPEN_BEST(normalize_few_columns)(plan, part, epsilon, x, y, mean, rstd);
          ASPEN_BEST(normalize_columns)(plan, part, epsilon, x, y, mean, rstd, column_sums(args, part));
        });
      },
      column_workspace(plan, parts));
}

std::unique_ptr<Kernel> make_normalize_grad(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  ReductionPlan plan = plan_of(request);
  ReductionParts parts = parts_of(plan);
  return make_kernel(
      [plan, parts, few = ASPEN_BEST(has_few_columns)(plan)](const KernelArgs& args) {
        auto *y = static_cast<const float*>(args.inputs[0]), *rstd = static_cast<const float*>(args.inputs[1]);
        auto* g = static_cast<const float*>(args.inputs[2]);
        auto* dx = static_cast<float*>(args.outputs[0]);
        parts.for_each(args, [&](const ReductionPart& part) {
          if (plan.by_rows()) return ASPEN_BEST(normalize_grad_rows)(plan, part, y, rstd, g, dx);
          if (few) return ASPEN_BEST(normalize_grad_few_columns)(plan, part, y, rstd, g, dx);
          ASPEN_BEST(normalize_grad_columns)(plan, part, y, rstd, g, dx, column_sums(args, part));
        });
      },
      column_workspace(plan, parts));
}

}  // namespace

void register_normalize_cpu(KernelRegistry& kernels) {
  add_with_half(kernels, "normalize", make_normalize);
  add_with_half(kernels, "normalize_grad", make_normalize_grad);
}

}  // namespace aspen
