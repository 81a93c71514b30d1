// Elementwise ops of one input, a table row each, and the fused kernels of the common gradients.
// In the gradient formulas x is the input, y the output and g the gradient of y.
#include "aspen/ops/unary/unary.h"

#include <cmath>
#include <numbers>

#include "aspen/ops/build.h"
#include "aspen/ops/infer.h"

namespace aspen {
namespace {

using Rule = Value* (*)(GradientContext& c);  // nullptr: exactly zero

Value* zero(GradientContext&) { return nullptr; }
Value* times(GradientContext& c, Value* factor) { return build::mul(c.b, c.grad(), factor); }
Value* times_unary(GradientContext& c, const char* op) { return times(c, build::unary(c.b, op, c.in(0))); }
Value* x_squared(GradientContext& c) { return build::mul(c.b, c.in(0), c.in(0)); }
// scale * x^2 + shift
Value* square_plus(GradientContext& c, double scale, double shift) {
  Value* square = x_squared(c);
  if (scale != 1) square = build::mul(c.b, square, scale);
  return build::add(c.b, square, shift);
}
Value* over_root(GradientContext& c, double scale, double shift) {
  return times(c, build::unary(c.b, "rsqrt", square_plus(c, scale, shift)));
}

// y = exp(-x^2) or exp(y^2), up to a factor: the derivatives of the error functions.
Value* gauss(GradientContext& c, double factor) {
  Value* bell = build::unary(c.b, "exp", build::neg(c.b, x_squared(c)));
  return times(c, build::mul(c.b, bell, factor));
}
Value* inverse_gauss(GradientContext& c) {
  Value* bell = build::unary(c.b, "exp", build::mul(c.b, c.out(), c.out()));
  return times(c, build::mul(c.b, bell, 1 / std::numbers::inv_sqrtpi / 2));
}

template <const char* op>
Value* fused_from_output(GradientContext& c) {
  return c.b.make(op, {c.out(), c.grad()});
}

constexpr char kReluGrad[] = "relu_grad", kTanhGrad[] = "tanh_grad", kSigmoidGrad[] = "sigmoid_grad";
constexpr double kTwoOverRootPi = 2 * std::numbers::inv_sqrtpi;

struct Row {
  const char* name;
  const char* summary;
  ElementKind kind;
  double low, high;  // where examples draw from: inside the domain, clear of poles
  Rule gradient;     // nullptr: none
};

constexpr auto kFloating = ElementKind::kFloating;
constexpr auto kNumeric = ElementKind::kNumeric;

const Row kRows[] = {
    {"neg", "-x", kNumeric, -1, 1, [](auto& c) { return build::neg(c.b, c.grad()); }},
    {"abs", "Magnitude; the gradient at 0 is 0.", kNumeric, -1, 1, [](auto& c) { return times_unary(c, "sign"); }},
    {"sign", "-1, 0 or 1; 0 for NaN.", kNumeric, -1, 1, zero},
    {"floor", "Rounds down.", kNumeric, -3, 3, zero},
    {"ceil", "Rounds up.", kNumeric, -3, 3, zero},
    {"round", "Rounds to the nearest integer, halves to even.", kNumeric, -3, 3, zero},
    {"trunc", "Rounds toward zero.", kNumeric, -3, 3, zero},
    {"exp", "e^x", kFloating, -2, 2, [](auto& c) { return times(c, c.out()); }},
    {"expm1", "e^x - 1, exact near 0.", kFloating, -1, 1,
     [](auto& c) { return times(c, build::add(c.b, c.out(), 1)); }},
    {"log", "Natural logarithm.", kFloating, 0.1, 3, [](auto& c) { return build::div(c.b, c.grad(), c.in(0)); }},
    {"log1p", "log(1 + x), exact near 0.", kFloating, -0.8, 2,
     [](auto& c) { return build::div(c.b, c.grad(), build::add(c.b, c.in(0), 1)); }},
    {"sqrt", "Square root.", kFloating, 0.1, 3,
     [](auto& c) { return build::div(c.b, c.grad(), build::mul(c.b, c.out(), 2)); }},
    {"rsqrt", "1 / sqrt(x)", kFloating, 0.2, 3,
     [](auto& c) {  // -g y^3 / 2
       Value* cube = build::mul(c.b, c.out(), build::mul(c.b, c.out(), c.out()));
       return times(c, build::mul(c.b, cube, -0.5));
     }},
    {"reciprocal", "1 / x", kFloating, 0.3, 3,
     [](auto& c) { return times(c, build::neg(c.b, build::mul(c.b, c.out(), c.out()))); }},
    {"sin", "Sine.", kFloating, -3, 3, [](auto& c) { return times_unary(c, "cos"); }},
    {"cos", "Cosine.", kFloating, -3, 3,
     [](auto& c) { return times(c, build::neg(c.b, build::unary(c.b, "sin", c.in(0)))); }},
    {"tan", "Tangent.", kFloating, -1, 1,
     [](auto& c) { return times(c, build::add(c.b, build::mul(c.b, c.out(), c.out()), 1)); }},
    {"asin", "Inverse sine.", kFloating, -0.9, 0.9, [](auto& c) { return over_root(c, -1, 1); }},
    {"acos", "Inverse cosine.", kFloating, -0.9, 0.9, [](auto& c) { return build::neg(c.b, over_root(c, -1, 1)); }},
    {"atan", "Inverse tangent.", kFloating, -2, 2,
     [](auto& c) { return build::div(c.b, c.grad(), square_plus(c, 1, 1)); }},
    {"sinh", "Hyperbolic sine.", kFloating, -2, 2, [](auto& c) { return times_unary(c, "cosh"); }},
    {"cosh", "Hyperbolic cosine.", kFloating, -2, 2, [](auto& c) { return times_unary(c, "sinh"); }},
    {"asinh", "Inverse hyperbolic sine.", kFloating, -2, 2, [](auto& c) { return over_root(c, 1, 1); }},
    {"acosh", "Inverse hyperbolic cosine.", kFloating, 1.2, 3, [](auto& c) { return over_root(c, 1, -1); }},
    {"atanh", "Inverse hyperbolic tangent.", kFloating, -0.8, 0.8,
     [](auto& c) { return build::div(c.b, c.grad(), square_plus(c, -1, 1)); }},
    {"tanh", "Hyperbolic tangent.", kFloating, -2, 2, fused_from_output<kTanhGrad>},
    {"sigmoid", "1 / (1 + e^-x)", kFloating, -3, 3, fused_from_output<kSigmoidGrad>},
    {"erf", "Error function.", kFloating, -2, 2, [](auto& c) { return gauss(c, kTwoOverRootPi); }},
    {"erfc", "1 - erf(x), exact for large x.", kFloating, -2, 2, [](auto& c) { return gauss(c, -kTwoOverRootPi); }},
    {"erfinv", "Inverse of erf; infinite at -1 and 1.", kFloating, -0.9, 0.9, inverse_gauss},
    {"lgamma", "Logarithm of the absolute gamma function.", kFloating, 0.5, 4,
     [](auto& c) { return times_unary(c, "digamma"); }},
    {"digamma", "Derivative of lgamma.", kFloating, 0.5, 4, [](auto& c) { return times_unary(c, "trigamma"); }},
    {"trigamma", "Derivative of digamma.", kFloating, 0.5, 4, nullptr},
    {"relu", "max(x, 0); NaN stays, the gradient at 0 is 0.", kNumeric, -1, 1, fused_from_output<kReluGrad>},
};

const Row kBoolRows[] = {
    {"isnan", "Is x not a number?", ElementKind::kAny, -1, 1, nullptr},
    {"isinf", "Is x infinite?", ElementKind::kAny, -1, 1, nullptr},
    {"isfinite", "Is x neither infinite nor NaN?", ElementKind::kAny, -1, 1, nullptr},
    {"signbit", "Is the sign bit set (also of -0.0)?", kNumeric, -1, 1, nullptr},
    {"logical_not", "x == 0", ElementKind::kAny, -1, 1, nullptr},
};

OpDef& define_row(OpRegistry& ops, const Row& row) {
  OpDef& op = ops.define(row.name)
                  .summary(row.summary)
                  .input("x", std::string(name_of(row.kind)))
                  .pointwise()
                  .example({.inputs = {{DType::kF32, {3, 7}}}, .low = row.low, .high = row.high})
                  .example({.inputs = {{DType::kF32, {}}}, .low = row.low, .high = row.high})
                  .example({.inputs = {{DType::kF32, {2, 37}}}, .low = row.low, .high = row.high});
  if (row.kind != kFloating) op.quick();  // roundings and signs
  if (row.kind != kFloating) op.example({.inputs = {{DType::kI32, {37}}}, .int_low = -3, .int_high = 4});
  if (row.kind == ElementKind::kAny) op.example({.inputs = {{DType::kBool, {37}}}});
  if (row.gradient != nullptr) {
    op.gradient([rule = row.gradient](GradientContext& c) {
      Value* gradient = rule(c);
      gradient != nullptr ? c.set(0, gradient) : c.zero(0);
    });
  }
  return op;
}

// op(x){attrs} whose gradient is op_grad(x, g){attrs}.
template <class A>
void define_with_attrs(OpRegistry& ops, const std::string& name, const std::string& summary, ElementKind kind,
                       const std::vector<A>& examples) {
  OpDef& op = ops.define<A>(name)
                  .summary(summary)
                  .input("x", std::string(name_of(kind)))
                  .output("y", "shape and type of x")
                  .infer(elementwise(kind))
                  .pointwise()
                  .inplace(0, 0)
                  .gradient([name](GradientContext& c) {
                    c.set(0, c.b.make(name + "_grad", {c.in(0), c.grad()}, c.attrs<A>()));
                  });
  OpDef& grad = ops.define<A>(name + "_grad")
                    .summary("Gradient of " + name + " by its input.")
                    .input("x", "input of " + name)
                    .input("g", "gradient of the output")
                    .output("dx", "shape and type of x")
                    .infer(same_types(kFloating))
                    .pointwise()
                    .inplace(0, 1)
                    .inplace(0, 0);
  for (const A& attrs : examples) {
    op.example({.inputs = {{DType::kF32, {5, 7}}}, .attrs = Attrs::of(attrs), .low = -3, .high = 3});
    grad.example(
        {.inputs = {{DType::kF32, {5, 7}}, {DType::kF32, {5, 7}}}, .attrs = Attrs::of(attrs), .low = -3, .high = 3});
  }
}

void define_output_gradient(OpRegistry& ops, const std::string& op, const std::string& summary, double low,
                            double high) {
  ops.define(op + "_grad")
      .summary(summary)
      .input("y", "output of " + op)
      .input("g", "gradient of y")
      .output("dx", "shape and type of y")
      .infer(same_types(kFloating))
      .pointwise()
      .inplace(0, 1)
      .inplace(0, 0)
      .example({.inputs = {{DType::kF32, {5, 7}}, {DType::kF32, {5, 7}}}, .low = low, .high = high});
}

}  // namespace

void define_unary(OpRegistry& ops) {
  for (const Row& row : kRows) {
    define_row(ops, row).output("y", "shape and type of x").infer(elementwise(row.kind)).inplace(0, 0);
  }
  for (const Row& row : kBoolRows) {
    define_row(ops, row).output("y", "bool, shape of x").infer(elementwise_to_bool(row.kind));
  }
  ops.define("bitwise_not")
      .summary("Inverts every bit; of a bool, its logical inverse.")
      .input("x", "integer or bool")
      .output("y", "shape and type of x")
      .infer(elementwise(ElementKind::kIntegral))
      .pointwise()
      .quick()
      .inplace(0, 0)
      .example({.inputs = {{DType::kI32, {37}}}, .int_low = -3, .int_high = 4})
      .example({.inputs = {{DType::kBool, {37}}}});

  define_with_attrs<GeluAttrs>(ops, "gelu", "x * Phi(x), Phi the normal distribution function.", kFloating,
                               {GeluAttrs{false}, GeluAttrs{true}});
  define_with_attrs<NoAttrs>(ops, "silu", "x * sigmoid(x)", kFloating, {NoAttrs{}});
  define_with_attrs<SoftplusAttrs>(ops, "softplus", "log(1 + e^(beta x)) / beta; x itself beyond the threshold.",
                                   kFloating, {SoftplusAttrs{}, SoftplusAttrs{2, 1.5}});
  define_with_attrs<LeakyReluAttrs>(ops, "leaky_relu", "x where x > 0, else slope * x.", kFloating,
                                    {LeakyReluAttrs{}, LeakyReluAttrs{-1.5}});
  define_with_attrs<NoAttrs>(ops, "hardsigmoid", "min(max(x + 3, 0), 6) / 6; the gradient at both kinks is 0.",
                             kFloating, {NoAttrs{}});
  define_with_attrs<NoAttrs>(ops, "hardswish", "x * hardsigmoid(x); the gradient is x / 3 + 1/2 at both kinks.",
                             kFloating, {NoAttrs{}});
  define_with_attrs<ClampAttrs>(
      ops, "clamp", "min(max(x, low), high); NaN stays, the gradient on both bounds is 1, or 0 if they are open.",
      kNumeric, {ClampAttrs{-0.5, 0.75}, ClampAttrs{.low = 0}, ClampAttrs{.high = 0.25}, ClampAttrs{-0.5, 0.75, true}});

  define_output_gradient(ops, "relu", "g where y > 0, else 0.", -1, 1);
  define_output_gradient(ops, "tanh", "g * (1 - y^2)", -0.95, 0.95);
  define_output_gradient(ops, "sigmoid", "g * y * (1 - y)", 0.05, 0.95);
}

}  // namespace aspen
