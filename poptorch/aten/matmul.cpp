// Matrix products. Half sums in float32 inside `dot`; a parameter kept in another precision than the activation
// takes the activation's type.
#include "poptorch/aten/support/matrix.h"

namespace poptorch {
namespace {

struct Factors {
  Expr x, y;
  ScalarType type;
};

Factors factors(Call& call, std::string_view first, std::string_view second) {
  ScalarType type = product_type(call, first, second);
  return {expr(call, operand(call, first, type)), expr(call, operand(call, second, type)), type};
}

// matmul(Tensor self, Tensor other), mm(Tensor self, Tensor mat2), bmm(Tensor self, Tensor mat2),
// mv(Tensor self, Tensor vec), dot(Tensor self, Tensor tensor), vdot(Tensor self, Tensor other)
Handler product(const char* other) {
  return [other](Call& call) {
    auto [x, y, type] = factors(call, "self", other);
    call.result(matmul(x, y).v, type);
  };
}

// linear(Tensor input, Tensor weight, Tensor? bias=None)
void linear_of(Call& call) {
  auto [x, w, type] = factors(call, "input", "weight");
  Value* bias = call.has("bias") ? operand(call, "bias", type) : nullptr;
  if (!is_float(type)) {
    Expr y = matmul(x, transpose(w, {1, 0}));
    return call.result((bias == nullptr ? y : y + expr(call, bias)).v, type);
  }
  call.result(linear(x, w, bias).v, type);
}

// addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1), addmv(... mat, vec ...),
// baddbmm(... batch1, batch2 ...): beta * self + alpha * product
Handler add_product(const char* first, const char* second) {
  return [first, second](Call& call) {
    auto [x, y, type] = factors(call, first, second);
    Expr self = expr(call, operand(call, "self", type));
    call.result(scaled_sum(self, call.number("beta"), matmul(x, y), call.number("alpha")).v, type);
  };
}

// addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1): the products are summed,
// which is one product of the matrices laid side by side
void addbmm(Call& call) {
  auto [x, y, type] = factors(call, "batch1", "batch2");
  std::int64_t batch = x.size(0), m = x.size(1), k = x.size(2), n = y.size(2);
  Expr wide = reshape(transpose(x, {1, 0, 2}), {m, batch * k});
  Expr product = matmul(wide, reshape(y, {batch * k, n}));
  Expr self = expr(call, operand(call, "self", type));
  call.result(scaled_sum(self, call.number("beta"), product, call.number("alpha")).v, type);
}

Expr outer_product(Expr x, Expr y) { return unsqueeze(x, 1) * unsqueeze(y, 0); }

// outer(Tensor self, Tensor vec2), ger(Tensor self, Tensor vec2)
void outer(Call& call) {
  ScalarType type = call.result_type({"self", "vec2"});
  Expr x = expr(call, operand(call, "self", type)), y = expr(call, operand(call, "vec2", type));
  if (x.rank() != 1 || y.rank() != 1)
    throw UserError("[outer] takes two vectors, not shapes {} and {}.", to_string(x.shape()), to_string(y.shape()));
  if (type == ScalarType::Bool) return call.result((unsqueeze(x, 1) && unsqueeze(y, 0)).v, type);
  call.result(outer_product(x, y).v, type);
}

// addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1)
void addr(Call& call) {
  ScalarType type = call.result_type({"self", "vec1", "vec2"});
  Expr product = outer_product(expr(call, operand(call, "vec1", type)), expr(call, operand(call, "vec2", type)));
  Expr self = expr(call, operand(call, "self", type));
  if (type == ScalarType::Bool) {  // of bools: or and and
    Expr no = full(call.b, DType::kBool, product.shape(), 0);
    Expr first = call.number("beta") != 0 ? broadcast(self, product.shape()) : no;
    return call.result((first || (call.number("alpha") != 0 ? product : no)).v, type);
  }
  // Unlike a matrix product, the outer one counts also where alpha is 0: NaN stays.
  double alpha = call.number("alpha");
  call.result(scaled_sum(self, call.number("beta"), alpha == 1 ? product : product * alpha, 1).v, type);
}

// bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None): y_o = x1^T W_o x2
void bilinear(Call& call) {
  ScalarType type = product_type(call, "input1", "weight");
  Expr x1 = expr(call, operand(call, "input1", type)), x2 = expr(call, operand(call, "input2", type));
  Expr w = expr(call, operand(call, "weight", type));
  std::int64_t outputs = w.size(0), n1 = w.size(1), n2 = w.size(2);
  Shape shape(x1.shape().begin(), x1.shape().end() - 1);
  std::int64_t rows = aspen::numel(shape);
  // (rows, n1) x (n1, outputs * n2), then the sum over n2 against x2.
  Expr by_input = reshape(transpose(w, {1, 0, 2}), {n1, outputs * n2});
  Expr half = reshape(dot(reshape(x1, {rows, n1}), by_input), {rows, outputs, n2});
  Expr y = sum(in_float(half) * in_float(reshape(x2, {rows, 1, n2})), {2});
  y = cast(y, x1.dtype());
  if (call.has("bias")) y = y + expr(call, operand(call, "bias", type));
  shape.push_back(outputs);
  call.result(reshape(y, std::move(shape)).v, type);
}

}  // namespace

void register_matmul(HandlerTable& table) {
  table.add("aten::matmul", product("other"));
  table.add("aten::mm", product("mat2"));
  table.add("aten::bmm", product("mat2"));
  table.add("aten::mv", product("vec"));
  table.add("aten::dot", product("tensor"));
  table.add("aten::vdot", product("other"));
  table.add("aten::linear", linear_of);
  table.add("aten::addmm", add_product("mat1", "mat2"));
  table.add("aten::addmv", add_product("mat", "vec"));
  table.add("aten::baddbmm", add_product("batch1", "batch2"));
  table.add("aten::addbmm", addbmm);
  table.add("aten::addr", addr);
  table.add("aten::outer", outer);
  table.add("aten::ger", outer);
  table.add("aten::bilinear", bilinear);
}

}  // namespace poptorch
