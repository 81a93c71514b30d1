// Special functions of one and two inputs, a table row each: Bessel functions, the gamma and zeta families, orthogonal
// polynomials, and a few of integers and floating point numbers. In the gradient formulas x is the input, a and b are
// the two inputs, y is the output and g the gradient of y.
#include <cmath>
#include <numbers>

#include "aspen/ops/build.h"
#include "aspen/ops/infer.h"

namespace aspen {
namespace {

using Rule = Value* (*)(GradientContext& c);  // nullptr: none

constexpr auto kFloating = ElementKind::kFloating;

Value* times(GradientContext& c, Value* factor) { return build::mul(c.b, c.grad(), factor); }
Value* unary_of_x(GradientContext& c, const char* op) { return build::unary(c.b, op, c.in(0)); }
Value* scalar(GradientContext& c, double value) { return build::scalar(c.b, c.grad()->dtype(), value); }
// y / x, and its limit 1/2 at 0: what the derivatives of I1 need.
Value* over_x(GradientContext& c) {
  Value* at_zero = build::binary(c.b, "eq", c.in(0), 0.0);
  Value* safe = build::select(c.b, at_zero, scalar(c, 1), c.in(0));
  return build::select(c.b, at_zero, scalar(c, 0.5), build::div(c.b, c.out(), safe));
}
Value* sign_times_y(GradientContext& c) { return build::mul(c.b, unary_of_x(c, "sign"), c.out()); }

struct UnaryRow {
  const char* name;
  const char* summary;
  double low, high;  // where examples draw from
  Rule gradient;
};

const UnaryRow kUnary[] = {
    {"bessel_i0", "Modified Bessel function of the first kind, order 0.", -3, 3,
     [](auto& c) { return times(c, unary_of_x(c, "bessel_i1")); }},
    {"bessel_i0e", "bessel_i0(x) * e^-|x|", -3, 3,
     [](auto& c) { return times(c, build::sub(c.b, unary_of_x(c, "bessel_i1e"), sign_times_y(c))); }},
    {"bessel_i1", "Modified Bessel function of the first kind, order 1.", -3, 3,
     [](auto& c) { return times(c, build::sub(c.b, unary_of_x(c, "bessel_i0"), over_x(c))); }},
    {"bessel_i1e", "bessel_i1(x) * e^-|x|", -3, 3,
     [](auto& c) {  // I0e - y / x - sign(x) y
       Value* slope = build::sub(c.b, unary_of_x(c, "bessel_i0e"), over_x(c));
       return times(c, build::sub(c.b, slope, sign_times_y(c)));
     }},
    {"bessel_j0", "Bessel function of the first kind, order 0.", -6, 6,
     [](auto& c) { return times(c, build::neg(c.b, unary_of_x(c, "bessel_j1"))); }},
    {"bessel_j1", "Bessel function of the first kind, order 1.", -6, 6,
     [](auto& c) { return times(c, build::sub(c.b, unary_of_x(c, "bessel_j0"), over_x(c))); }},
    {"bessel_y0", "Bessel function of the second kind, order 0; NaN below 0.", 0.5, 6,
     [](auto& c) { return times(c, build::neg(c.b, unary_of_x(c, "bessel_y1"))); }},
    {"bessel_y1", "Bessel function of the second kind, order 1; NaN below 0.", 0.5, 6,
     [](auto& c) { return times(c, build::sub(c.b, unary_of_x(c, "bessel_y0"), build::div(c.b, c.out(), c.in(0)))); }},
    {"bessel_k0", "Modified Bessel function of the second kind, order 0; NaN below 0.", 0.5, 4,
     [](auto& c) { return times(c, build::neg(c.b, unary_of_x(c, "bessel_k1"))); }},
    {"bessel_k1", "Modified Bessel function of the second kind, order 1; NaN below 0.", 0.5, 4,
     [](auto& c) {  // -K0 - y / x
       return times(c, build::neg(c.b, build::add(c.b, unary_of_x(c, "bessel_k0"), build::div(c.b, c.out(), c.in(0)))));
     }},
    {"bessel_k0e", "bessel_k0(x) * e^x", 0.5, 4,
     [](auto& c) { return times(c, build::sub(c.b, c.out(), unary_of_x(c, "bessel_k1e"))); }},
    {"bessel_k1e", "bessel_k1(x) * e^x", 0.5, 4,
     [](auto& c) {  // y - K0e - y / x
       Value* rest = build::add(c.b, unary_of_x(c, "bessel_k0e"), build::div(c.b, c.out(), c.in(0)));
       return times(c, build::sub(c.b, c.out(), rest));
     }},
    {"airy_ai", "Airy function Ai.", -3, 3, nullptr},
    {"erfcx", "erfc(x) * e^(x^2), which neither vanishes nor overflows for large x.", -1, 4,
     [](auto& c) {  // 2 x y - 2 / sqrt(pi)
       Value* slope = build::mul(c.b, build::mul(c.b, c.in(0), c.out()), 2);
       return times(c, build::add(c.b, slope, -2 * std::numbers::inv_sqrtpi));
     }},
    {"ndtri", "Inverse of the normal distribution function; infinite at 0 and 1.", 0.1, 0.9,
     [](auto& c) {  // sqrt(2 pi) e^(y^2 / 2)
       Value* square = build::mul(c.b, build::mul(c.b, c.out(), c.out()), 0.5);
       return times(c, build::mul(c.b, build::unary(c.b, "exp", square), std::sqrt(2 * std::numbers::pi)));
     }},
};

Value* a(GradientContext& c) { return c.in(0); }
Value* b(GradientContext& c) { return c.in(1); }

// b^(a - 1) e^-b / gamma(a)
Value* gamma_density(GradientContext& c) {
  Value* power = build::mul(c.b, build::add(c.b, a(c), -1), build::unary(c.b, "log", b(c)));
  Value* exponent = build::sub(c.b, build::sub(c.b, power, b(c)), build::unary(c.b, "lgamma", a(c)));
  return times(c, build::unary(c.b, "exp", exponent));
}

struct BinaryRow {
  const char* name;
  const char* summary;
  ElementKind kind;
  double low, high;
  Rule by_b;  // nullptr: none
};

const BinaryRow kBinary[] = {
    {"zeta", "Hurwitz zeta function: the sum of (k + b)^-a over k >= 0.", kFloating, 1.5, 3,
     [](auto& c) {  // -a zeta(a + 1, b)
       Value* slope = build::binary(c.b, "zeta", build::add(c.b, a(c), 1), b(c));
       return times(c, build::neg(c.b, build::mul(c.b, a(c), slope)));
     }},
    {"igamma", "Lower incomplete gamma function, regularised.", kFloating, 0.5, 3, gamma_density},
    {"igammac", "1 - igamma(a, b), exact near 0.", kFloating, 0.5, 3,
     [](auto& c) { return build::neg(c.b, gamma_density(c)); }},
    {"nextafter", "The next number after a on the way to b; of float32.", kFloating, -1, 1, nullptr},
    {"gcd", "Greatest common divisor, not negative.", ElementKind::kInteger, 0, 0, nullptr},
    {"chebyshev_t", "Chebyshev polynomial of the first kind in a, of degree b.", kFloating, -1, 1, nullptr},
    {"chebyshev_u", "Chebyshev polynomial of the second kind in a, of degree b.", kFloating, -1, 1, nullptr},
    {"chebyshev_v", "Chebyshev polynomial of the third kind in a, of degree b.", kFloating, -1, 1, nullptr},
    {"chebyshev_w", "Chebyshev polynomial of the fourth kind in a, of degree b.", kFloating, -1, 1, nullptr},
    {"hermite_h", "Hermite polynomial (of physics) in a, of degree b.", kFloating, -1, 1, nullptr},
    {"hermite_he", "Hermite polynomial (of probability) in a, of degree b.", kFloating, -1, 1, nullptr},
    {"laguerre_l", "Laguerre polynomial in a, of degree b.", kFloating, -1, 1, nullptr},
    {"legendre_p", "Legendre polynomial in a, of degree b.", kFloating, -1, 1, nullptr},
};

void define_row(OpRegistry& ops, const UnaryRow& row) {
  OpDef& op = ops.define(row.name)
                  .summary(row.summary)
                  .input("x", std::string(name_of(kFloating)))
                  .output("y", "shape and type of x")
                  .infer(elementwise(kFloating))
                  .inplace(0, 0)
                  .example({.inputs = {{DType::kF32, {3, 7}}}, .low = row.low, .high = row.high})
                  .example({.inputs = {{DType::kF32, {}}}, .low = row.low, .high = row.high});
  if (row.gradient != nullptr) {
    op.gradient([rule = row.gradient](GradientContext& c) { c.set(0, rule(c)); });
  }
}

void define_row(OpRegistry& ops, const BinaryRow& row) {
  OpDef& op = ops.define(row.name)
                  .summary(row.summary)
                  .input("a", std::string(name_of(row.kind)))
                  .input("b", "type of a; shapes broadcast")
                  .output("y", "type of a, broadcast shape")
                  .broadcasts()
                  .infer(elementwise(row.kind))
                  .inplace(0, 0)
                  .inplace(0, 1);
  if (row.kind == kFloating) {
    op.example({.inputs = {{DType::kF32, {5, 7}}, {DType::kF32, {7}}}, .low = row.low, .high = row.high});
  } else {
    op.example({.inputs = {{DType::kI32, {6, 7}}, {DType::kI32, {7}}}, .int_low = -30, .int_high = 30});
  }
  if (row.by_b == nullptr) return;
  op.gradient([rule = row.by_b](GradientContext& c) {
    c.no_gradient(0);  // PyTorch has none either; the front end says so to who needs it
    if (c.needs(1)) c.set(1, build::reduce_to(c.b, rule(c), b(c)->shape()));
  });
}

}  // namespace

void define_special(OpRegistry& ops) {
  for (const UnaryRow& row : kUnary) define_row(ops, row);
  for (const BinaryRow& row : kBinary) define_row(ops, row);
}

}  // namespace aspen
