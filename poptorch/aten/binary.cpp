// Arithmetic on two tensors, or a tensor and a number: promotion by torch's rules, then one op. The overloads
// .Tensor and .Scalar differ only in the kind of their arguments, which `operand` hides.
#include <cmath>

#include "aspen/ops/addcmul/addcmul.h"
#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

struct Pair {
  Expr x, y;
  ScalarType type;
};

Pair promoted(Call& call, std::string_view first = "self", std::string_view second = "other") {
  ScalarType type = call.result_type({first, second});
  return {expr(call, operand(call, first, type)), expr(call, operand(call, second, type)), type};
}

Pair promoted_floating(Call& call, std::string_view first = "self", std::string_view second = "other") {
  ScalarType type = floating_type(call.result_type({first, second}));
  return {expr(call, operand(call, first, type)), expr(call, operand(call, second, type)), type};
}

// name(Tensor self, Tensor other) -> Tensor by one op of the promoted type
Handler plain(std::string op) {
  return [op](Call& call) {
    auto [x, y, type] = promoted(call);
    call.result(binary(op, x, y).v, type);
  };
}

// add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1), add.Scalar(Tensor self, Scalar other, Scalar alpha=1)
// sub.*, and rsub.* with the operands exchanged. On bool, add means or.
Handler add_or_sub(bool subtract, bool reversed) {
  return [subtract, reversed](Call& call) {
    auto [x, y, type] = promoted(call);
    double alpha = number_or(call, "alpha", 1);
    if (type == ScalarType::Bool) {
      if (subtract) throw UserError("[sub] is not defined for two bool tensors; use logical_xor or cast them.");
      return call.result((alpha == 0 ? x : x || y).v, type);
    }
    if (reversed) std::swap(x, y);
    // rsub scales self, the one that is taken away.
    if (alpha != 1) y = y * alpha;
    call.result((subtract ? x - y : x + y).v, type);
  };
}

// mul.Tensor(Tensor self, Tensor other), mul.Scalar(Tensor self, Scalar other). On bool, mul means and.
void mul(Call& call) {
  auto [x, y, type] = promoted(call);
  call.result((type == ScalarType::Bool ? x && y : x * y).v, type);
}

// div.Tensor(Tensor self, Tensor other), div.Scalar(Tensor self, Scalar other), true_divide.*
void div(Call& call) {
  auto [x, y, type] = promoted_floating(call);
  call.result((x / y).v, type);
}

void rounded_div(Call& call, const char* op) {
  auto [x, y, type] = promoted(call);
  call.result(binary(op, x, y).v, type);
}

// div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode), div.Scalar_mode(...)
void div_mode(Call& call) {
  if (!call.has("rounding_mode")) return div(call);
  std::string mode = call.text("rounding_mode");
  if (mode != "floor" && mode != "trunc") {
    throw UserError("[div] unknown rounding_mode \"{}\"; the modes are None, \"floor\" and \"trunc\".", mode);
  }
  rounded_div(call, mode == "floor" ? "div_floor" : "div_trunc");
}

// floor_divide(Tensor self, Tensor other), floor_divide.Scalar(Tensor self, Scalar other)
void floor_divide(Call& call) { rounded_div(call, "div_floor"); }

// pow.Tensor_Tensor(Tensor self, Tensor exponent), pow.Tensor_Scalar(Tensor self, Scalar exponent),
// pow.Scalar(Scalar self, Tensor exponent)
void pow_of(Call& call) {
  auto [x, y, type] = promoted(call, "self", "exponent");
  if (!call.raw("exponent").isTensor()) {
    double exponent = call.number("exponent");
    if (!is_float(type) && exponent < 0)
      throw UserError("[pow] integers to a negative integer power are not defined; cast to a floating type.");
    if (exponent == 1) return call.result(x.v, type);
    if (exponent == 2) return call.result((x * x).v, type);
    if (is_float(type) && exponent == 0.5) return call.result(sqrt(x).v, type);
    if (is_float(type) && exponent == -0.5) return call.result(rsqrt(x).v, type);
    if (is_float(type) && exponent == -1) return call.result(unary("reciprocal", x).v, type);
  }
  call.result(pow(x, y).v, type);
}

// atan2(Tensor self, Tensor other)
void atan2(Call& call) {
  auto [x, y, type] = promoted_floating(call);
  call.result(binary("atan2", x, y).v, type);
}

// A formula of two floating operands, computed in float32 or better.
Handler formula(Expr (*f)(Expr, Expr)) {
  return [f](Call& call) {
    auto [x, y, type] = promoted_floating(call);
    call.result(cast(f(in_float(x), in_float(y)), x.dtype()).v, type);
  };
}

// Scaled by the larger side, so that squares neither overflow nor vanish; gradient 0 at the origin.
Expr hypot(Expr x, Expr y) {
  Expr largest = detach(max(abs(x), abs(y)));
  Expr regular = largest > 0 && !isinf(largest);
  Expr scale = where(regular, largest, 1.0);
  Expr a = x / scale, b = y / scale;
  Expr root = sqrt(where(regular, a * a + b * b, 1.0)) * scale;
  return where(regular, root, largest);
}

Expr logaddexp2(Expr x, Expr y) {
  double ln2 = std::log(2.0);
  return logaddexp(x * ln2, y * ln2) * (1 / ln2);
}

// x * log(y), 0 where x is 0 unless y is NaN
Expr xlogy(Expr x, Expr y) {
  Expr zero = x == 0 && !isnan(y);
  return where(zero, 0.0, x * log(where(zero, 1.0, y)));
}

Expr xlog1py(Expr x, Expr y) {
  Expr zero = x == 0 && !isnan(y);
  return where(zero, 0.0, x * log1p(where(zero, 0.0, y)));
}

// fmax(Tensor self, Tensor other), fmin(...): NaN loses; on equality the first takes the gradient.
Handler ignoring_nan(bool largest) {
  return [largest](Call& call) {
    auto [x, y, type] = promoted(call);
    Expr first = largest ? x >= y : x <= y;
    if (is_float(type)) first = first || isnan(y);
    call.result(where(first, x, y).v, type);
  };
}

// lerp.Scalar(Tensor self, Tensor end, Scalar weight), lerp.Tensor(Tensor self, Tensor end, Tensor weight)
void lerp(Call& call) {
  ScalarType type = call.dtype("self");
  Expr x = expr(call, operand(call, "self", type)), end = expr(call, operand(call, "end", type));
  Expr weight = expr(call, operand(call, "weight", type));
  call.result((x + weight * (end - x)).v, type);
}

// addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1), addcdiv(...)
Handler add_product(bool quotient) {
  return [quotient](Call& call) {
    ScalarType type = call.result_type({"self", "tensor1", "tensor2"});
    Expr x = expr(call, operand(call, "self", type));
    Expr a = expr(call, operand(call, "tensor1", type)), b = expr(call, operand(call, "tensor2", type));
    double value = call.number("value");
    if (!quotient && is_float(type)) {
      return call.result(call.b.make("addcmul", {x.v, a.v, b.v}, aspen::AddcmulAttrs{value}), type);
    }
    Expr term = quotient ? a / b : a * b;
    call.result((x + (value == 1 ? term : term * value)).v, type);
  };
}

// copysign.Tensor(Tensor self, Tensor other), copysign.Scalar(Tensor self, Scalar other). By a factor: a choice between
// the size and its negative would add up the gradients of each apart.
void copysign(Call& call) {
  auto [x, y, type] = promoted_floating(call);
  Expr factor = where(unary("signbit", y), full_like(y, -1), 1.0);
  call.result((abs(x) * factor).v, type);
}

// heaviside(Tensor self, Tensor values): no gradient
void heaviside(Call& call) {
  auto [x, y, type] = promoted(call, "self", "values");
  Expr step = cast(x > 0, x.dtype());
  Expr result = where(x == 0, detach(y), step);
  if (is_float(type)) result = where(isnan(x), detach(x), result);
  call.result(result.v, type);
}

}  // namespace

void register_binary(HandlerTable& table) {
  for (const char* overload : {".Tensor", ".Scalar"}) {
    auto named = [overload](const char* name) { return std::string("aten::") + name + overload; };
    table.add(named("add"), add_or_sub(false, false));
    table.add(named("sub"), add_or_sub(true, false));
    table.add(named("rsub"), add_or_sub(true, true));
    table.add(named("mul"), mul);
    table.add(named("div"), div);
    table.add(named("true_divide"), div);
    table.add(named("remainder"), plain("rem_floor"));
    table.add(named("fmod"), plain("rem_trunc"));
    table.add(named("copysign"), copysign);
  }
  table.add("aten::remainder.Scalar_Tensor", plain("rem_floor"));
  table.add("aten::div.Tensor_mode", div_mode);
  table.add("aten::div.Scalar_mode", div_mode);
  table.add("aten::floor_divide", floor_divide);
  table.add("aten::floor_divide.Scalar", floor_divide);
  for (const char* name : {"aten::pow.Tensor_Tensor", "aten::pow.Tensor_Scalar", "aten::pow.Scalar"})
    table.add(name, pow_of);
  table.add("aten::atan2", atan2);
  table.add("aten::maximum", plain("max"));
  table.add("aten::minimum", plain("min"));
  table.add("aten::max.other", plain("max"));
  table.add("aten::min.other", plain("min"));
  table.add("aten::fmax", ignoring_nan(true));
  table.add("aten::fmin", ignoring_nan(false));
  table.add("aten::hypot", formula(hypot));
  table.add("aten::logaddexp", formula(logaddexp));
  table.add("aten::logaddexp2", formula(logaddexp2));
  for (const char* overload : {"Tensor", "Scalar_Other", "Scalar_Self"}) {
    table.add(std::string("aten::xlogy.") + overload, formula(xlogy));
  }
  for (const char* overload : {"", ".other_scalar", ".self_scalar"}) {
    table.add(std::string("aten::special_xlog1py") + overload, formula(xlog1py));
  }
  table.add("aten::lerp.Scalar", lerp);
  table.add("aten::lerp.Tensor", lerp);
  table.add("aten::addcmul", add_product(false));
  table.add("aten::addcdiv", add_product(true));
  table.add("aten::heaviside", heaviside);
}

}  // namespace poptorch
