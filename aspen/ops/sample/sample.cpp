// Draws from distributions whose parameters are tensors. Each op owns a stream, as the ops of random/ do. Gamma and
// Dirichlet have pathwise gradients: with F the distribution function, dz/da = -(dF/da) / (dF/dz) at the value z that
// was drawn, so the backward pass reads that value and draws nothing. Counts do not move with their parameters: as in
// PyTorch their gradient is zero.
#include "aspen/ops/sample/sample.h"

#include "aspen/ops/build.h"
#include "aspen/ops/infer.h"

namespace aspen {
namespace {

void zero_gradients(GradientContext& c) {
  for (std::size_t i = 0; i < c.op.num_inputs(); ++i) {
    if (c.needs(i)) c.zero(i);
  }
}

void define_continuous(OpRegistry& ops) {
  ops.define<SampleAttrs>("random_gamma")
      .summary("Gamma variates of scale 1, at least the smallest normal number.")
      .input("alpha", "shape parameters, floating point, not negative; 0 gives the smallest number")
      .output("y", "shape and type of alpha")
      .infer(elementwise(ElementKind::kFloating))
      .inplace(0, 0)
      .random()
      .gradient([](GradientContext& c) {
        c.set(0, build::mul(c.b, c.grad(), c.b.make("gamma_sample_grad", {c.in(0), c.out()})));
      })
      // The finite difference of a draw by rejection is not its pathwise gradient; sample_test.cpp checks that.
      .example({.inputs = {{DType::kF32, {5, 7}}},
                .attrs = Attrs::of(SampleAttrs{1}),
                .low = 0.2,
                .high = 4,
                .check_gradient = false})
      .example({.inputs = {{DType::kF16, {9}}},
                .attrs = Attrs::of(SampleAttrs{2}),
                .low = 0.5,
                .high = 2,
                .check_gradient = false});
  ops.define<SampleAttrs>("random_dirichlet")
      .summary("Dirichlet variates: numbers between 0 and 1 that add up to 1 along the last axis.")
      .input("alpha", "concentrations, floating point, positive, rank >= 1")
      .output("y", "shape and type of alpha")
      .infer([](const InferContext& c) {
        check_kind(c, 0, ElementKind::kFloating);
        c.check(c.in(0).rank() >= 1, "takes concentrations along the last axis, not {}.", to_string(c.in(0)));
        return std::vector<TensorType>{c.in(0)};
      })
      .random()
      // d alpha_i = h_i (g_i - sum_j x_j g_j), h the scaled gradient of each marginal, a beta distribution.
      .gradient([](GradientContext& c) {
        Value *alpha = c.in(0), *x = c.out(), *g = c.grad();
        Value* total = build::broadcast(c.b, build::reduce_sum(c.b, alpha, {-1}, true), alpha->shape());
        Value* inner = build::reduce_sum(c.b, build::mul(c.b, x, g), {-1}, true);
        c.set(0, build::mul(c.b, c.b.make("beta_sample_grad", {x, alpha, total}), build::sub(c.b, g, inner)));
      })
      .example({.inputs = {{DType::kF32, {5, 4}}},
                .attrs = Attrs::of(SampleAttrs{3}),
                .low = 0.2,
                .high = 4,
                .check_gradient = false});  // as random_gamma
  ops.define("gamma_sample_grad")
      .summary("How a gamma variate moves with its shape parameter: -(dF/dalpha) / (dF/dz) at the variate.")
      .input("alpha", "shape parameters, floating point, positive")
      .input("z", "variates, type and shape of alpha")
      .output("dz", "shape and type of alpha")
      .infer(same_types(ElementKind::kFloating))
      .inplace(0, 0)
      .inplace(0, 1)
      .example({.inputs = {{DType::kF32, {5, 7}}, {DType::kF32, {5, 7}}}, .low = 0.2, .high = 4});
  ops.define("beta_sample_grad")
      .summary("How a beta variate moves with its first parameter, over 1 - x: -(dF/dalpha) / (dF/dx) / (1 - x).")
      .input("x", "variates, floating point, between 0 and 1")
      .input("alpha", "first parameters, type and shape of x, positive")
      .input("total", "sums of both parameters, type and shape of x")
      .output("dx", "shape and type of x")
      .infer(same_types(ElementKind::kFloating))
      .inplace(0, 0)
      .example({.inputs = {{DType::kF32, {9}}, {DType::kF32, {9}}, {DType::kF32, {9}}}, .low = 0.1, .high = 0.9});
}

void define_counts(OpRegistry& ops) {
  ops.define<SampleAttrs>("random_poisson")
      .summary("Poisson variates: whole numbers in the type of their rates.")
      .input("rate", "floating point, not negative")
      .output("y", "shape and type of rate")
      .infer(elementwise(ElementKind::kFloating))
      .inplace(0, 0)
      .random()
      .gradient(zero_gradients)
      // A finite difference may step from one count to the next.
      .example({.inputs = {{DType::kF32, {5, 7}}},
                .attrs = Attrs::of(SampleAttrs{4}),
                .low = 0,
                .high = 30,
                .check_gradient = false});
  ops.define<SampleAttrs>("random_binomial")
      .summary("Binomial variates: how many of `count` trials succeed, in the type of count.")
      .input("count", "floating point, numbers of trials")
      .input("p", "type and shape of count, probabilities of success")
      .output("y", "shape and type of count; 0 where count or p is not positive, count where p >= 1")
      .infer(same_types(ElementKind::kFloating))
      .inplace(0, 0)
      .random()
      .gradient(zero_gradients)
      .example({.inputs = {{DType::kF32, {5, 7}}, {DType::kF32, {5, 7}}},
                .attrs = Attrs::of(SampleAttrs{5}),
                .low = 0.1,
                .high = 0.9,
                .check_gradient = false});  // as random_poisson
  ops.define<MultinomialAttrs>("random_multinomial")
      .summary("Classes drawn by weight, without replacement in the order of drawing.")
      .input("weights", "floating point (..., C), not negative, finite, not all zero; they need not add up to 1")
      .output("y", "i32 (..., num_samples), in [0, C)")
      .infer([](const InferContext& c) {
        const auto& attrs = c.attrs<MultinomialAttrs>();
        check_kind(c, 0, ElementKind::kFloating);
        c.check(c.in(0).rank() >= 1, "takes weights along the last axis, not {}.", to_string(c.in(0)));
        c.check(attrs.num_samples > 0, "num_samples is {}; expected at least 1.", attrs.num_samples);
        TensorType y{DType::kI32, c.in(0).shape};
        c.check(attrs.replacement || attrs.num_samples <= y.shape.back(),
                "cannot draw {} samples from {} classes without replacement.", attrs.num_samples, y.shape.back());
        y.shape.back() = attrs.num_samples;
        return std::vector<TensorType>{y};
      })
      .random()
      .example(
          {.inputs = {{DType::kF32, {3, 5}}}, .attrs = Attrs::of(MultinomialAttrs{4, false, 6}), .low = 0.1, .high = 1})
      .example(
          {.inputs = {{DType::kF32, {3}}}, .attrs = Attrs::of(MultinomialAttrs{20, true, 7}), .low = 0.1, .high = 1});
}

}  // namespace

void define_sample(OpRegistry& ops) {
  define_continuous(ops);
  define_counts(ops);
}

}  // namespace aspen
