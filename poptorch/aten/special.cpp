// Special functions: Bessel functions, the gamma and zeta families, orthogonal polynomials, and those of the normal
// distribution. Those with an op of their own are rows of a table; the rest are formulas.
#include <cmath>
#include <limits>
#include <numbers>

#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kHalfRoot = 1 / std::numbers::sqrt2;

struct Row {
  const char* aten;
  const char* op;
};

// name(Tensor self) -> Tensor
constexpr Row kSmooth[] = {
    {"i0", "bessel_i0"},           {"special_i0e", "bessel_i0e"}, {"special_i1", "bessel_i1"},
    {"special_i1e", "bessel_i1e"}, {"special_erfcx", "erfcx"},    {"special_ndtri", "ndtri"},
};
// Torch has no gradients of these.
constexpr Row kWithoutGradient[] = {
    {"special_bessel_j0", "bessel_j0"},
    {"special_bessel_j1", "bessel_j1"},
    {"special_bessel_y0", "bessel_y0"},
    {"special_bessel_y1", "bessel_y1"},
    {"special_modified_bessel_i0", "bessel_i0"},
    {"special_modified_bessel_i1", "bessel_i1"},
    {"special_modified_bessel_k0", "bessel_k0"},
    {"special_modified_bessel_k1", "bessel_k1"},
    {"special_scaled_modified_bessel_k0", "bessel_k0e"},
    {"special_scaled_modified_bessel_k1", "bessel_k1e"},
    {"special_airy_ai", "airy_ai"},
};
// name(Tensor x, Tensor n), name.x_scalar(Scalar x, Tensor n), name.n_scalar(Tensor x, Scalar n)
constexpr Row kPolynomials[] = {
    {"chebyshev_polynomial_t", "chebyshev_t"}, {"chebyshev_polynomial_u", "chebyshev_u"},
    {"chebyshev_polynomial_v", "chebyshev_v"}, {"chebyshev_polynomial_w", "chebyshev_w"},
    {"hermite_polynomial_h", "hermite_h"},     {"hermite_polynomial_he", "hermite_he"},
    {"laguerre_polynomial_l", "laguerre_l"},   {"legendre_polynomial_p", "legendre_p"},
};

// In float32 or better; the result has the (floating) type of the argument.
template <class F>
void with_floating(Call& call, const char* argument, F&& f) {
  Expr x = expr(call, floating_operand(call, argument));
  call.result(cast(f(in_float(x)), x.dtype()).v, floating_dtype(call, argument));
}

Handler smooth(std::string op) {
  return [op](Call& call) { with_floating(call, "self", [&](Expr x) { return unary(op, x); }); };
}
Handler without_gradient(std::string op) {
  return [op](Call& call) {
    const char* argument = call.schema().arguments()[0].name() == "x" ? "x" : "self";
    with_floating(call, argument, [&](Expr x) { return unary(op, detach(x)); });
  };
}

// Two operands of one floating type, in float32 or better.
template <class F>
void with_floating_pair(Call& call, const char* first, const char* second, F&& f) {
  ScalarType type = floating_type(call.result_type({first, second}));
  Expr x = in_float(expr(call, operand(call, first, type))), y = in_float(expr(call, operand(call, second, type)));
  call.result(cast(f(x, y), graph_dtype(type)).v, type);
}

// igamma(Tensor self, Tensor other), igammac(...), special_zeta(Tensor self, Tensor other), .self_scalar, .other_scalar
// By the first operand torch has no gradient.
Handler pair(std::string op) {
  return [op](Call& call) {
    if (call.training() && call.raw("self").isTensor() && call.raw("self").toTensor().requires_grad()) {
      throw UserError("[{}] has no gradient by its first argument, as in PyTorch; detach() it.", call.name());
    }
    with_floating_pair(call, "self", "other", [&](Expr x, Expr y) { return binary(op, x, y); });
  };
}

// "Shifted": the polynomial in 2 x - 1.
Handler polynomial(std::string op, bool shifted) {
  return [op, shifted](Call& call) {
    with_floating_pair(call, "x", "n",
                       [&](Expr x, Expr n) { return binary(op, detach(shifted ? x * 2.0 - 1.0 : x), detach(n)); });
  };
}

// special_spherical_bessel_j0(Tensor x): sin(x) / x
void spherical_bessel(Call& call) {
  with_floating(call, "x", [](Expr given) {
    Expr x = detach(given), zero = x == 0.0;
    Expr quotient = sin(x) / where(zero, 1.0, x);
    return where(zero, 1.0, where(isinf(x), 0.0, quotient));
  });
}

// A value with the given slope by x.
Expr with_slope(Expr value, Expr x, Expr slope) {
  return {x.b, x.b->make("graft", {detach(value).v, (x * detach(slope)).v})};
}

// special_entr(Tensor self): -x log(x), 0 at 0, -inf below; its slope is infinite at 0 and NaN below
Expr entropy(Expr x) {
  Expr inside = x > 0.0;
  Expr y = -x * log(where(inside, x, 1.0));
  y = where(inside || isnan(x), y, where(x == 0.0, 0.0, full_like(x, -kInfinity)));
  return with_slope(y, x, -log(x) - 1.0);
}

// special_log_ndtr(Tensor self): log of the normal distribution function, by erfcx where that is small
Expr log_normal_distribution(Expr x) {
  Expr deep = x < -1.0, t = x * kHalfRoot;
  Expr below = where(deep, t, -kHalfRoot), above = where(deep, 0.0, t);
  Expr small = log(unary("erfcx", -below) * 0.5) - below * below;
  return where(deep, small, log1p(unary("erfc", above) * -0.5));
}

// angle(Tensor self): of real numbers, 0 or pi; no gradient
Expr angle(Expr given) {
  Expr x = detach(given);
  return where(isnan(x), x, where(x < 0.0, full_like(x, std::numbers::pi), 0.0));
}

Handler formula(Expr (*f)(Expr)) {
  return [f](Call& call) { with_floating(call, "self", f); };
}

// As torch computes it: mirrored below 1/2, then six steps up to where the series converges. At the poles sin(pi x) is
// what rounding leaves, and the result large instead of infinite.
Expr trigamma(Expr given) {
  constexpr double kPi = std::numbers::pi_v<float>;
  Expr mirrored = given < 0.5, sine = sin(given * kPi);
  Expr x = where(mirrored, 1.0 - given, given);
  Expr y = where(mirrored, -(kPi * kPi) / (sine * sine), full_like(x, 0));
  for (int step = 0; step < 6; ++step) {
    y = y + 1.0 / (x * x);
    x = x + 1.0;
  }
  Expr square = 1.0 / (x * x);
  y = y + (1.0 + 0.5 / x + square * (1.0 / 6 - square * (1.0 / 30 - square * (1.0 / 42)))) / x;
  return where(mirrored, -y, y);
}

// (-1)^(n+1) n! zeta(n + 1, x)
Expr polygamma(std::int64_t n, Expr x) {
  if (n < 0) throw UserError("[polygamma] n is {}; expected n >= 0.", n);
  if (n == 0) return unary("digamma", x);
  if (n == 1) return with_slope(trigamma(detach(x)), x, polygamma(2, detach(x)));
  double factor = std::tgamma(static_cast<double>(n) + 1) * (n % 2 == 1 ? 1 : -1);
  return binary("zeta", full(*x.b, x.dtype(), {}, static_cast<double>(n) + 1), x) * factor;
}

// polygamma(int n, Tensor self), polygamma_(Tensor(a!) self, int n)
void polygamma_of(Call& call) {
  with_floating(call, "self", [&](Expr x) { return polygamma(call.integer("n"), x); });
}
void polygamma_in_place(Call& call) {
  Expr x = expr(call, floating_operand(call, "self"));
  call.write("self", polygamma(call.integer("n"), in_float(x)).v);
  call.same("self");
}

// mvlgamma(Tensor self, int p): the logarithm of the gamma function of p dimensions, which needs x > (p - 1) / 2
void mvlgamma(Call& call) {
  std::int64_t p = call.integer("p");
  if (p < 1) throw UserError("[mvlgamma] p is {}; expected p >= 1.", p);
  double dimensions = static_cast<double>(p);
  with_floating(call, "self", [&](Expr x) {
    Expr total = full_like(x, dimensions * (dimensions - 1) / 4 * std::log(std::numbers::pi));
    for (std::int64_t j = 0; j < p; ++j) total = total + unary("lgamma", x - static_cast<double>(j) / 2);
    return where(x > (dimensions - 1) / 2, total, kNan);
  });
}

// isposinf(Tensor self), isneginf(Tensor self)
Handler is_infinity(double infinity) {
  return [infinity](Call& call) {
    Expr x = expr(call, call.value("self"));
    Expr answer = is_float(call.dtype("self")) ? x == infinity : full(call.b, DType::kBool, x.shape(), 0);
    call.result(answer.v, ScalarType::Bool);
  };
}

// gcd(Tensor self, Tensor other), lcm(Tensor self, Tensor other)
Handler divisors(bool multiple) {
  return [multiple](Call& call) {
    ScalarType type = call.result_type({"self", "other"});
    if (is_float(type) || type == ScalarType::Bool)
      throw UserError("[{}] takes integers, not {}.", call.name(), c10::toString(type));
    Expr x = expr(call, operand(call, "self", type)), y = expr(call, operand(call, "other", type));
    Expr divisor = binary("gcd", x, y);
    call.result((multiple ? abs(binary("div_trunc", x, divisor) * y) : divisor).v, type);
  };
}

// nextafter(Tensor self, Tensor other)
void nextafter(Call& call) {
  ScalarType type = call.result_type({"self", "other"});
  if (type != ScalarType::Float) decline("nextafter of another type than float32");
  call.result(binary("nextafter", expr(call, operand(call, "self", type)), expr(call, operand(call, "other", type))).v,
              type);
}

}  // namespace

void register_special(HandlerTable& table) {
  for (const Row& row : kSmooth) table.add(std::string("aten::") + row.aten, smooth(row.op));
  for (const Row& row : kWithoutGradient) table.add(std::string("aten::") + row.aten, without_gradient(row.op));
  for (const Row& row : kPolynomials) {
    for (const char* overload : {"", ".x_scalar", ".n_scalar"}) {
      table.add(std::string("aten::special_") + row.aten + overload, polynomial(row.op, false));
      if (std::string_view(row.aten).starts_with("chebyshev")) {
        table.add(std::string("aten::special_shifted_") + row.aten + overload, polynomial(row.op, true));
      }
    }
  }
  for (const char* overload : {"", ".self_scalar", ".other_scalar"})
    table.add(std::string("aten::special_zeta") + overload, pair("zeta"));
  table.add("aten::igamma", pair("igamma"));
  table.add("aten::igammac", pair("igammac"));
  table.add("aten::special_spherical_bessel_j0", spherical_bessel);
  table.add("aten::special_entr", formula(entropy));
  table.add("aten::special_log_ndtr", formula(log_normal_distribution));
  table.add("aten::angle", formula(angle));
  table.add("aten::polygamma", polygamma_of);
  table.add("aten::polygamma_", polygamma_in_place);
  table.add("aten::mvlgamma", mvlgamma);
  table.add("aten::isposinf", is_infinity(kInfinity));
  table.add("aten::isneginf", is_infinity(-kInfinity));
  table.add("aten::gcd", divisors(false));
  table.add("aten::lcm", divisors(true));
  table.add("aten::nextafter", nextafter);
}

}  // namespace poptorch
