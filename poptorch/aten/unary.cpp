// Elementwise functions of one tensor. Those with an op of the same meaning are rows of a table; the rest are
// formulas. Schema of all of them unless noted: name(Tensor self) -> Tensor
#include <cmath>
#include <limits>

#include "aspen/ops/unary/unary.h"
#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Row {
  const char* aten;
  const char* op;
};

// Integers become floating point first.
constexpr Row kFloating[] = {
    {"acos", "acos"},   {"acosh", "acosh"},     {"asin", "asin"},
    {"asinh", "asinh"}, {"atan", "atan"},       {"atanh", "atanh"},
    {"cos", "cos"},     {"cosh", "cosh"},       {"digamma", "digamma"},
    {"erf", "erf"},     {"erfc", "erfc"},       {"erfinv", "erfinv"},
    {"exp", "exp"},     {"expm1", "expm1"},     {"lgamma", "lgamma"},
    {"log", "log"},     {"log1p", "log1p"},     {"reciprocal", "reciprocal"},
    {"rsqrt", "rsqrt"}, {"sigmoid", "sigmoid"}, {"sin", "sin"},
    {"sinh", "sinh"},   {"sqrt", "sqrt"},       {"tan", "tan"},
    {"tanh", "tanh"},
};

// The element type stays; rounding an integer leaves it alone.
constexpr Row kSameType[] = {{"abs", "abs"}, {"neg", "neg"}, {"sign", "sign"}, {"sgn", "sign"}};
constexpr Row kRounding[] = {{"ceil", "ceil"}, {"floor", "floor"}, {"round", "round"}, {"trunc", "trunc"}};
constexpr Row kQuestions[] = {{"isnan", "isnan"}, {"isinf", "isinf"}, {"isfinite", "isfinite"}, {"signbit", "signbit"}};

Handler floating(std::string op) {
  return [op](Call& call) {
    call.result(build::unary(call.b, op, floating_operand(call, "self")), floating_dtype(call, "self"));
  };
}

Handler same_type(std::string op) {
  return [op](Call& call) {
    ScalarType type = call.dtype("self");
    if (type == ScalarType::Bool && op != "sign") {
      throw UserError("[{}] is not defined for bool; use logical_not or cast to an integer type.", op);
    }
    call.result(type == ScalarType::Bool ? call.value("self") : build::unary(call.b, op, call.value("self")), type);
  };
}

Handler rounding(std::string op) {
  return [op](Call& call) {
    Value* x = call.value("self");
    call.result(is_float(call.dtype("self")) ? build::unary(call.b, op, x) : x, call.dtype("self"));
  };
}

// A bool answer; integers are always finite numbers.
Handler question(std::string op) {
  return [op](Call& call) {
    Expr x = expr(call, call.value("self"));
    if (is_float(call.dtype("self"))) return call.result(unary(op, x).v, ScalarType::Bool);
    if (op == "signbit" && x.dtype() != DType::kBool) return call.result((x < 0).v, ScalarType::Bool);
    call.result(full(call.b, DType::kBool, x.shape(), op == "isfinite").v, ScalarType::Bool);
  };
}

void logical_not(Call& call) { call.result(build::unary(call.b, "logical_not", call.value("self")), ScalarType::Bool); }

void bitwise_not(Call& call) {
  bool is_bool = call.dtype("self") == ScalarType::Bool;
  call.result(build::unary(call.b, is_bool ? "logical_not" : "bitwise_not", call.value("self")), call.dtype("self"));
}

// A formula in float32 or better; the result has the (floating) type of the argument.
Handler formula(Expr (*f)(Expr)) {
  return [f](Call& call) {
    Expr x = expr(call, floating_operand(call, "self"));
    call.result(cast(f(in_float(x)), x.dtype()).v, floating_dtype(call, "self"));
  };
}

Expr exp2(Expr x) { return exp(x * std::log(2.0)); }
Expr log10(Expr x) { return log(x) * (1 / std::log(10.0)); }
Expr log2(Expr x) { return log(x) * (1 / std::log(2.0)); }
Expr deg2rad(Expr x) { return x * (kPi / 180); }
Expr rad2deg(Expr x) { return x * (180 / kPi); }
Expr frac(Expr x) { return x - trunc(x); }
// sin(pi x) / (pi x), 1 at 0; the quotient is taken away from 0 so that its gradient stays finite.
Expr sinc(Expr x) {
  Expr zero = x == 0;
  Expr angle = where(zero, 1.0, x) * kPi;
  return where(zero, 1.0, sin(angle) / angle);
}

// square(Tensor self): integers stay integers.
void square(Call& call) {
  Expr x = expr(call, call.value("self"));
  ScalarType type = call.dtype("self");
  if (type == ScalarType::Bool) x = cast(x, DType::kI32), type = ScalarType::Long;
  call.result((x * x).v, type);
}

// round.decimals(Tensor self, *, int decimals)
void round_decimals(Call& call) {
  ScalarType type = call.dtype("self");
  if (!is_float(type)) return call.result(call.value("self"), type);
  Expr x = expr(call, call.value("self"));
  double scale = std::pow(10.0, std::abs(static_cast<double>(call.integer("decimals"))));
  bool left = call.integer("decimals") < 0;
  Expr scaled = left ? round(in_float(x) / scale) * scale : round(in_float(x) * scale) / scale;
  call.result(cast(scaled, x.dtype()).v, type);
}

// logit(Tensor self, float? eps=None): log(x / (1 - x)), x clamped to [eps, 1 - eps]
void logit(Call& call) {
  Expr x = expr(call, floating_operand(call, "self"));
  Expr p = in_float(x);
  if (call.has("eps")) p = clamp(p, call.number("eps"), 1 - call.number("eps"));
  call.result(cast(log(p / (1 - p)), x.dtype()).v, floating_dtype(call, "self"));
}

// nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None)
void nan_to_num(Call& call) {
  ScalarType type = call.dtype("self");
  if (!is_float(type)) return call.result(call.value("self"), type);
  Expr x = expr(call, call.value("self"));
  double largest = x.dtype() == DType::kF16    ? 65504
                   : x.dtype() == DType::kBF16 ? 0x1.fep127
                                               : std::numeric_limits<float>::max();
  Expr y = where(isnan(x), number_or(call, "nan", 0), x);
  y = where(x == kInfinity, number_or(call, "posinf", largest), y);
  y = where(x == -kInfinity, number_or(call, "neginf", -largest), y);
  call.result(y.v, type);
}

// clamp(Tensor self, Scalar? min=None, Scalar? max=None), clip(...)
// clamp_min(Tensor self, Scalar min), clamp_max(Tensor self, Scalar max)
void clamp_scalar(Call& call) {
  std::vector<std::string_view> mixed{"self"};
  for (std::string_view bound : {"min", "max"}) {
    if (call.has(bound)) mixed.push_back(bound);
  }
  if (mixed.size() == 1) throw UserError("[clamp] needs a minimum, a maximum or both.");
  ScalarType type = call.result_type(mixed);
  Expr x = expr(call, operand(call, "self", type));
  double low = number_or(call, "min", -kInfinity), high = number_or(call, "max", kInfinity);
  if (low > high) low = high;  // torch: everything becomes the maximum
  call.result(clamp(x, low, high).v, type);
}

// clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None), clip.Tensor(...), clamp_min.Tensor, clamp_max.Tensor
// Where a bound wins it takes the gradient; on equality x does. NaN of any operand wins.
void clamp_tensor(Call& call) {
  std::vector<std::string_view> mixed{"self"};
  for (std::string_view bound : {"min", "max"}) {
    if (call.has(bound)) mixed.push_back(bound);
  }
  ScalarType type = call.result_type(mixed);
  Expr x = expr(call, operand(call, "self", type));
  Expr y = x;
  if (call.has("min")) {
    Expr low = expr(call, operand(call, "min", type));
    y = where(y < low || low != low, low, y);
  }
  if (call.has("max")) {
    Expr high = expr(call, operand(call, "max", type));
    y = where(y > high || high != high, high, y);
  }
  call.result(y.v, type);
}

}  // namespace

void register_unary(HandlerTable& table) {
  auto named = [](const char* name) { return std::string("aten::") + name; };
  for (const Row& row : kFloating) table.add(named(row.aten), floating(row.op));
  for (const Row& row : kSameType) table.add(named(row.aten), same_type(row.op));
  for (const Row& row : kRounding) table.add(named(row.aten), rounding(row.op));
  for (const Row& row : kQuestions) table.add(named(row.aten), question(row.op));
  table.add("aten::logical_not", logical_not);
  table.add("aten::bitwise_not", bitwise_not);
  table.add("aten::exp2", formula(exp2));
  table.add("aten::log10", formula(log10));
  table.add("aten::log2", formula(log2));
  table.add("aten::deg2rad", formula(deg2rad));
  table.add("aten::rad2deg", formula(rad2deg));
  table.add("aten::frac", formula(frac));
  table.add("aten::sinc", formula(sinc));
  table.add("aten::square", square);
  table.add("aten::round.decimals", round_decimals);
  table.add("aten::logit", logit);
  table.add("aten::nan_to_num", nan_to_num);
  for (const char* name : {"aten::clamp", "aten::clip", "aten::clamp_min", "aten::clamp_max"})
    table.add(name, clamp_scalar);
  for (const char* name :
       {"aten::clamp.Tensor", "aten::clip.Tensor", "aten::clamp_min.Tensor", "aten::clamp_max.Tensor"}) {
    table.add(name, clamp_tensor);
  }
}

}  // namespace poptorch
