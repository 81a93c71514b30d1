// Automatic loss scaling: counting gradients that come close to the end of half's range, and the rule that follows.
// The compiler puts these ops beside the optimiser's; they come after autodiff and have no gradients.
#include "aspen/ops/loss_scale/loss_scale.h"

#include "aspen/compiler/ir/op_def.h"

namespace aspen {
namespace {

const TensorType kScalar{DType::kF32, {}}, kStatistics{DType::kF32, {2}};

std::vector<TensorType> infer_update(const InferContext& c) {
  for (std::size_t i = 0; i < c.num_inputs(); ++i) {
    c.check(c.in(i) == kScalar, "takes {}, not {} for input {}.", to_string(kScalar), to_string(c.in(i)), i);
  }
  const std::int64_t period = c.attrs<LossScaleUpdateAttrs>().period;
  c.check(period >= 1, "cannot change every {} updates; expected at least 1.", period);
  return {kScalar};
}

}  // namespace

void define_loss_scale(OpRegistry& ops) {
  ops.define<GradientStatisticsAttrs>("gradient_statistics")
      .summary("Counts the elements beyond an edge, and those that are not finite.")
      .input("g", "gradient, floating point")
      .output("statistics", "f32[2]: elements with |g| > edge or NaN; elements that are not finite")
      .infer([](const InferContext& c) -> std::vector<TensorType> {
        c.check(is_floating(c.in(0).dtype), "takes floating point, not {}.", to_string(c.in(0)));
        return {kStatistics};
      })
      .example({.inputs = {{DType::kF16, {7, 9}}}, .attrs = Attrs::of(GradientStatisticsAttrs{0.5})})
      .example({.inputs = {{DType::kF32, {33}}}, .attrs = Attrs::of(GradientStatisticsAttrs{0.25})});
  LossScaleUpdateAttrs attrs{.total = 4, .threshold = 0.5, .largest = 65504, .least = 1e-3, .period = 1};
  ops.define<LossScaleUpdateAttrs>("loss_scale_update")
      .summary("The factor on the loss scaling after an update: half of it if many gradients are large, else twice.")
      .input("factor", "f32 scalar")
      .input("scaling", "f32 scalar, which the factor multiplies")
      .input("large", "f32 scalar, the elements of all gradients that gradient_statistics found large")
      .input("updates", "f32 scalar, updates done before this one")
      .output("factor", "f32 scalar")
      .infer(infer_update)
      .example({.inputs = {kScalar, kScalar, kScalar, kScalar}, .attrs = Attrs::of(attrs), .low = 3, .high = 4})
      .example({.inputs = {kScalar, kScalar, kScalar, kScalar}, .attrs = Attrs::of(attrs), .low = 0.5, .high = 1});
}

}  // namespace aspen
