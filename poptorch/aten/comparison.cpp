// Questions about two tensors, logic and bits. Comparisons promote first and answer with bool.
#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

// eq.Tensor(Tensor self, Tensor other), eq.Scalar(Tensor self, Scalar other), ...
Handler compare(std::string op) {
  return [op](Call& call) {
    ScalarType type = call.result_type({"self", "other"});
    // An integer tensor against a fraction: compared as floating point, as torch does.
    if (!call.raw("other").isTensor() && !is_float(type) && !call.is_integral_scalar("other")) type = default_float();
    Value* x = operand(call, "self", type);
    Value* y = operand(call, "other", type);
    call.result(build::binary(call.b, op, x, y), ScalarType::Bool);
  };
}

// Any type; not zero means true.
Value* truth(Call& call, std::string_view argument) { return operand(call, argument, ScalarType::Bool); }

// logical_and(Tensor self, Tensor other), ...
Handler logical(std::string op) {
  return [op](Call& call) {
    call.result(build::binary(call.b, op, truth(call, "self"), truth(call, "other")), ScalarType::Bool);
  };
}

// bitwise_and.Tensor(Tensor self, Tensor other), .Scalar(Tensor self, Scalar other), .Scalar_Tensor(Scalar self, Tensor
// other), __and__.*: bool by the logical op of the same meaning
Handler bitwise(std::string op, std::string logical_op) {
  return [op, logical_op](Call& call) {
    ScalarType type = call.result_type({"self", "other"});
    if (is_float(type)) throw UserError("[{}] takes integers and bool, not {}.", call.name(), c10::toString(type));
    Value* x = operand(call, "self", type);
    Value* y = operand(call, "other", type);
    call.result(build::binary(call.b, type == ScalarType::Bool ? logical_op : op, x, y), type);
  };
}

// __lshift__.Tensor(Tensor self, Tensor other), bitwise_left_shift.*, ...; floating point scales by 2^other
Handler shift(bool left) {
  return [left](Call& call) {
    ScalarType type = call.result_type({"self", "other"});
    Expr x = expr(call, operand(call, "self", type)), y = expr(call, operand(call, "other", type));
    if (is_float(type)) {
      Expr factor = pow(full(call.b, y.dtype(), {}, 2), y);
      return call.result((left ? x * factor : x / factor).v, type);
    }
    call.result(binary(left ? "shl" : "shr", x, y).v, type);
  };
}

// isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False)
void isclose(Call& call) {
  ScalarType type = call.result_type({"self", "other"});
  Expr x = expr(call, operand(call, "self", type)), y = expr(call, operand(call, "other", type));
  Expr close = x == y;
  double rtol = call.number("rtol"), atol = call.number("atol");
  if (is_float(type)) {
    if (call.boolean("equal_nan")) close = close || (isnan(x) && isnan(y));
    Expr error = abs(in_float(x) - in_float(y));
    close = close || (unary("isfinite", error) && error <= abs(in_float(y) * rtol) + atol);
  } else if (rtol != 0 || atol != 0) {
    Expr a = cast(x, DType::kF32), b = cast(y, DType::kF32);
    close = close || abs(a - b) <= abs(b * rtol) + atol;
  }
  call.result(close.v, ScalarType::Bool);
}

// isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False)
// isin.Tensor_Scalar(Tensor elements, Scalar test_element, ...), isin.Scalar_Tensor(Scalar element, Tensor
// test_elements, ...)
Handler isin(const char* elements, const char* tests) {
  return [elements, tests](Call& call) {
    ScalarType type = call.result_type({elements, tests});
    Expr x = expr(call, operand(call, elements, type)), test = expr(call, operand(call, tests, type));
    Shape wide = x.shape();
    wide.push_back(1);
    Expr equal = reshape(x, wide) == reshape(test, {test.numel()});
    Expr found = cast(reduce_max(cast(equal, DType::kI32), {equal.rank() - 1}), DType::kBool);
    if (test.numel() == 0) found = full(call.b, DType::kBool, x.shape(), 0);
    call.result((call.boolean("invert") ? !found : found).v, ScalarType::Bool);
  };
}

}  // namespace

void register_comparison(HandlerTable& table) {
  for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    for (const char* overload : {".Tensor", ".Scalar"}) table.add(std::string("aten::") + op + overload, compare(op));
  }
  for (const char* op : {"logical_and", "logical_or", "logical_xor"})
    table.add(std::string("aten::") + op, logical(op));

  struct Row {
    const char* word;
    const char* op;
    const char* logical_op;
  };
  for (Row row :
       {Row{"and", "bitand", "logical_and"}, Row{"or", "bitor", "logical_or"}, Row{"xor", "bitxor", "logical_xor"}}) {
    Handler handler = bitwise(row.op, row.logical_op);
    for (const char* overload : {".Tensor", ".Scalar", ".Scalar_Tensor"}) {
      table.add(std::string("aten::bitwise_") + row.word + overload, handler);
    }
    for (const char* overload : {".Tensor", ".Scalar"})
      table.add(std::string("aten::__") + row.word + "__" + overload, handler);
  }
  for (bool left : {true, false}) {
    std::string side = left ? "left" : "right";
    for (const char* overload : {".Tensor", ".Tensor_Scalar", ".Scalar_Tensor"}) {
      table.add("aten::bitwise_" + side + "_shift" + overload, shift(left));
    }
    for (const char* overload : {".Tensor", ".Scalar"}) {
      table.add(std::string(left ? "aten::__lshift__" : "aten::__rshift__") + overload, shift(left));
    }
  }
  table.add("aten::isclose", isclose);
  table.add("aten::isin.Tensor_Tensor", isin("elements", "test_elements"));
  table.add("aten::isin.Tensor_Scalar", isin("elements", "test_element"));
  table.add("aten::isin.Scalar_Tensor", isin("element", "test_elements"));
}

}  // namespace poptorch
