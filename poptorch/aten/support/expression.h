// Expr: a value and the builder that extends it, with operators, so that a lowering reads like its formula.
// Numbers take the element type of the expression they meet. Comparisons give booleans.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "poptorch/aten/support/arguments.h"

namespace poptorch {

struct Expr {
  Builder* b = nullptr;
  Value* v = nullptr;

  const Shape& shape() const { return v->shape(); }
  DType dtype() const { return v->dtype(); }
  std::int64_t rank() const { return v->rank(); }
  std::int64_t size(std::int64_t axis) const { return v->shape()[static_cast<std::size_t>(axis)]; }
  std::int64_t numel() const { return v->type().numel(); }
};

inline Expr expr(Call& call, Value* value) { return {&call.b, value}; }
inline Expr expr(Builder& b, Value* value) { return {&b, value}; }

Expr unary(std::string_view op, Expr x);
Expr binary(std::string_view op, Expr x, Expr y);
Expr binary(std::string_view op, Expr x, double y);
Expr binary(std::string_view op, double x, Expr y);

#define POPTORCH_EXPR_OPERATOR(symbol, name)                                   \
  inline Expr operator symbol(Expr x, Expr y) { return binary(name, x, y); }   \
  inline Expr operator symbol(Expr x, double y) { return binary(name, x, y); } \
  inline Expr operator symbol(double x, Expr y) { return binary(name, x, y); }
POPTORCH_EXPR_OPERATOR(+, "add")
POPTORCH_EXPR_OPERATOR(-, "sub")
POPTORCH_EXPR_OPERATOR(*, "mul")
POPTORCH_EXPR_OPERATOR(/, "div")
POPTORCH_EXPR_OPERATOR(<, "lt")
POPTORCH_EXPR_OPERATOR(<=, "le")
POPTORCH_EXPR_OPERATOR(>, "gt")
POPTORCH_EXPR_OPERATOR(>=, "ge")
POPTORCH_EXPR_OPERATOR(==, "eq")
POPTORCH_EXPR_OPERATOR(!=, "ne")
#undef POPTORCH_EXPR_OPERATOR

inline Expr operator-(Expr x) { return unary("neg", x); }
inline Expr operator!(Expr x) { return unary("logical_not", x); }
inline Expr operator&&(Expr x, Expr y) { return binary("logical_and", x, y); }
inline Expr operator||(Expr x, Expr y) { return binary("logical_or", x, y); }

inline Expr abs(Expr x) { return unary("abs", x); }
inline Expr exp(Expr x) { return unary("exp", x); }
inline Expr expm1(Expr x) { return unary("expm1", x); }
inline Expr log(Expr x) { return unary("log", x); }
inline Expr log1p(Expr x) { return unary("log1p", x); }
inline Expr sqrt(Expr x) { return unary("sqrt", x); }
inline Expr rsqrt(Expr x) { return unary("rsqrt", x); }
inline Expr sin(Expr x) { return unary("sin", x); }
inline Expr floor(Expr x) { return unary("floor", x); }
inline Expr trunc(Expr x) { return unary("trunc", x); }
inline Expr round(Expr x) { return unary("round", x); }
inline Expr sign(Expr x) { return unary("sign", x); }
inline Expr tanh(Expr x) { return unary("tanh", x); }
inline Expr sigmoid(Expr x) { return unary("sigmoid", x); }
inline Expr relu(Expr x) { return unary("relu", x); }
inline Expr isnan(Expr x) { return unary("isnan", x); }
inline Expr isinf(Expr x) { return unary("isinf", x); }
inline Expr detach(Expr x) { return unary("detach", x); }
inline Expr max(Expr x, Expr y) { return binary("max", x, y); }
inline Expr min(Expr x, Expr y) { return binary("min", x, y); }
inline Expr pow(Expr x, Expr y) { return binary("pow", x, y); }
inline Expr pow(Expr x, double y) { return binary("pow", x, y); }

Expr clamp(Expr x, double low, double high);    // gradient on [low, high]
Expr bounded(Expr x, double low, double high);  // the same, gradient strictly inside only
Expr softplus(Expr x);
Expr logaddexp(Expr x, Expr y);  // log(exp(x) + exp(y))

Expr where(Expr condition, Expr x, Expr y);
Expr where(Expr condition, Expr x, double y);
Expr where(Expr condition, double x, Expr y);

Expr cast(Expr x, DType dtype);
Expr in_float(Expr x);  // half becomes float32: formulas of several steps round once, at the end

Expr reshape(Expr x, Shape shape);
Expr transpose(Expr x, std::vector<std::int64_t> permutation);
Expr broadcast(Expr x, Shape shape);
Expr slice(Expr x, std::int64_t axis, std::int64_t start, std::int64_t end, std::int64_t step = 1);
Expr select_row(Expr x, std::int64_t axis, std::int64_t index);
Expr unsqueeze(Expr x, std::int64_t axis);
Expr squeeze(Expr x, std::int64_t axis);
Expr concat(const std::vector<Expr>& xs, std::int64_t axis);
Expr pad(Expr x, Shape low, Shape high, double value = 0);
Expr pad_axis(Expr x, std::int64_t axis, std::int64_t low, std::int64_t high, double value = 0);
Expr reverse(Expr x, Axes axes);

// For some axes which element stands at every place; -1: zero.
using PlacesByAxis = std::map<std::int64_t, std::vector<std::int64_t>>;
Expr remap(Expr x, const PlacesByAxis& places);
Expr remap_grad(Expr g, const PlacesByAxis& places, Shape shape);  // what came from one place of `shape` added up

Expr sum(Expr x, Axes axes, bool keep = false);
Expr mean(Expr x, Axes axes, bool keep = false);  // of no elements: NaN
Expr reduce_max(Expr x, Axes axes, bool keep = false);
Expr reduce_min(Expr x, Axes axes, bool keep = false);
Expr cumsum(Expr x, std::int64_t axis, bool reverse = false);

Expr take(Expr x, Expr index, std::int64_t axis);
Expr gather(Expr x, Expr index, std::int64_t axis);
Expr scatter(Expr x, Expr index, Expr update, std::int64_t axis, std::string mode);
Expr scatter_rows(Expr x, Expr index, Expr update, std::int64_t axis, std::string mode);
// y[to[k]] += x[from[k]], of `rows` rows.
Expr sum_rows(Expr x, Expr from, Expr to, std::int64_t rows);
// Counts negative positions from the end; anything outside [-size, size) ends in an error when it is met.
Expr wrap_index(Expr index, std::int64_t size);
// x itself (i32); an element outside [low, high] ends in an error: "[who] what 7 of sample 1 is out of range for size".
Expr check_range(Expr x, std::int64_t low, std::int64_t high, std::string who, std::string what, std::string size);

Expr full(Builder& b, DType dtype, Shape shape, double value);
Expr full_like(Expr like, double value);
Expr iota(Builder& b, DType dtype, std::int64_t size, double start = 0, double step = 1);
// i32 positions along one axis, shaped to broadcast against a tensor of the given rank.
Expr positions(Builder& b, std::int64_t rank, std::int64_t axis, std::int64_t size);
Expr constant(Builder& b, DType dtype, Shape shape, const std::vector<double>& numbers);
Expr constant_i32(Builder& b, Shape shape, const std::vector<std::int32_t>& numbers);

Expr dot(Expr x, Expr y, bool transpose_x = false, bool transpose_y = false);

}  // namespace poptorch
