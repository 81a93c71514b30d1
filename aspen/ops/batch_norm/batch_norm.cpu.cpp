#include "aspen/ops/batch_norm/batch_norm.h"

#include <cmath>
#include <limits>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/widened.h"

namespace aspen {
namespace {

// x: (images, channels, size).
struct BatchNormPlan {
  std::int64_t images = 0, channels = 0, size = 1;
  double epsilon = 0;
  float low = 0, high = 0;
  bool is_bounded = false, open = false;
};

struct BatchNormArgs {
  const float *x, *scale, *shift, *other;
  float *y, *mean, *rstd;
};

struct BatchNormGradArgs {
  const float *x, *scale, *shift, *mean, *rstd, *g;
  float *dx, *dscale, *dshift;
};

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/batch_norm/batch_norm_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

bool declines(const KernelRequest& request, std::string& why) {
  const TensorType& x = request.inputs[0].type;
  if (x.dtype == DType::kF32 && x.numel() > 0) return false;
  why = fmt::format("{}: the vector loops take f32 with at least one element, not {}", request.op, to_string(x));
  return true;
}

BatchNormPlan plan_of(const KernelRequest& request, const BoundedBatchNormAttrs& attrs) {
  const Shape& x = request.inputs[0].type.shape;
  BatchNormPlan plan{.images = x[0],
                     .channels = x[1],
                     .epsilon = attrs.norm.epsilon,
                     .low = static_cast<float>(attrs.low),
                     .high = static_cast<float>(attrs.high),
                     .is_bounded = std::isfinite(attrs.low) || std::isfinite(attrs.high),
                     .open = attrs.open};
  for (std::size_t i = 2; i < x.size(); ++i) plan.size *= x[i];
  return plan;
}

// Columns are cut between vectors.
Chunks chunks_of(const BatchNormPlan& plan) {
  const double total = kMoveCost * static_cast<double>(plan.images * plan.channels * plan.size);
  return plan.size > 1 ? cut(plan.channels, total) : cut(plan.channels, total, {.multiple = 64, .least = 64});
}

const float* input(const KernelArgs& args, std::size_t i) { return static_cast<const float*>(args.inputs[i]); }
float* output(const KernelArgs& args, std::size_t i) { return static_cast<float*>(args.outputs[i]); }

std::unique_ptr<Kernel> make_forward(const BatchNormPlan& plan, bool takes_other) {
  return make_kernel([plan, takes_other, chunks = chunks_of(plan)](const KernelArgs& args) {
    const BatchNormArgs operands{
        input(args, 0),  input(args, 1),  input(args, 2), takes_other ? input(args, 3) : nullptr,
        output(args, 0), output(args, 1), output(args, 2)};
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      ASPEN_BEST(batch_norm)(plan, operands, chunk.begin, chunk.end);
    });
  });
}

std::unique_ptr<Kernel> make_batch_norm(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  return make_forward(plan_of(request, {.norm = request.attrs.as<BatchNormAttrs>()}), false);
}

std::unique_ptr<Kernel> make_batch_norm_bounded(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  const bool takes_other = request.inputs.size() > 3 && request.inputs[3].present;
  return make_forward(plan_of(request, request.attrs.as<BoundedBatchNormAttrs>()), takes_other);
}

std::unique_ptr<Kernel> make_batch_norm_grad(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  BatchNormPlan plan = plan_of(request, request.attrs.as<BoundedBatchNormAttrs>());
  if (plan.open && std::isinf(plan.high)) plan.high = std::numeric_limits<float>::quiet_NaN();
  return make_kernel([plan, chunks = chunks_of(plan)](const KernelArgs& args) {
    const BatchNormGradArgs operands{input(args, 0), input(args, 1),  input(args, 2),  input(args, 3), input(args, 4),
                                     input(args, 5), output(args, 0), output(args, 1), output(args, 2)};
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      ASPEN_BEST(batch_norm_grad)(plan, operands, chunk.begin, chunk.end);
    });
  });
}

}  // namespace

void register_batch_norm_cpu(KernelRegistry& kernels) {
  add_with_half(kernels, "batch_norm", make_batch_norm);
  add_with_half(kernels, "batch_norm_bounded", make_batch_norm_bounded);
  add_with_half(kernels, "batch_norm_grad", make_batch_norm_grad);
}

}  // namespace aspen
