// Sums, products, extremes and truth over axes. Half adds up in float32 and is rounded once. The sum of bools as a bool
// is whether any is true, the product whether all are.
#include "aspen/ops/reduce/reduce.h"
#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

bool keepdim(const Call& call) { return call.has("keepdim") && call.boolean("keepdim"); }

// Are all (reduce_min) or any (reduce_max) not 0? Of nothing: all is true, any is false.
void quantified(Call& call, const std::string& op, bool in_bytes = false) {
  Value* x = operand(call, "self", ScalarType::Bool);
  Axes axes = axes_argument(call, "dim", x->shape());
  Value* answer = build::reduce(call.b, op, x, axes, keepdim(call));
  call.result(in_bytes ? build::cast(call.b, answer, DType::kU8) : answer,
              in_bytes ? ScalarType::Byte : ScalarType::Bool);
}

// sum(Tensor self, *, ScalarType? dtype=None), sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *,
// ScalarType? dtype) nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)
Handler sum_of(bool skip_nan) {
  return [skip_nan](Call& call) {
    ScalarType type = call.dtype_option("dtype").value_or(sum_type(call.dtype("self")));
    if (type == ScalarType::Bool) return quantified(call, "reduce_max");
    Expr x = expr(call, operand(call, "self", type));
    if (skip_nan && is_float(type)) x = where(isnan(x), 0.0, x);
    call.result(sum(x, axes_argument(call, "dim", x.shape()), keepdim(call)).v, type);
  };
}

// mean(Tensor self, *, ScalarType? dtype=None), mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType?
// dtype)
void mean_of(Call& call) {
  ScalarType type = call.dtype_option("dtype").value_or(call.dtype("self"));
  if (!is_float(type)) {
    throw UserError("[mean] takes floating point tensors, not {}; pass dtype=torch.float32.", c10::toString(type));
  }
  Expr x = expr(call, operand(call, "self", type));
  call.result(cast(mean(in_float(x), axes_argument(call, "dim", x.shape()), keepdim(call)), x.dtype()).v, type);
}

// prod(Tensor self, *, ScalarType? dtype=None), prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType?
// dtype)
void prod(Call& call) {
  ScalarType type = call.dtype_option("dtype").value_or(sum_type(call.dtype("self")));
  if (type == ScalarType::Bool) return quantified(call, "reduce_min");
  Value* x = operand(call, "self", type);
  call.result(build::reduce(call.b, "reduce_prod", x, axes_argument(call, "dim", x->shape()), keepdim(call)), type);
}

// amax(Tensor self, int[1] dim=[], bool keepdim=False), amin(...), max(Tensor self), min(Tensor self)
Handler extreme(std::string op) {
  return [op](Call& call) {
    Value* x = call.value("self");
    if (x->type().numel() == 0)
      throw UserError("[{}] needs at least one element; the input has shape {}.", call.name(), to_string(x->shape()));
    Axes axes = axes_argument(call, "dim", x->shape());
    bool is_bool = x->dtype() == DType::kBool;
    if (is_bool) x = build::cast(call.b, x, DType::kU8);
    x = build::reduce(call.b, op, x, axes, keepdim(call));
    call.result(is_bool ? build::cast(call.b, x, DType::kBool) : x, call.dtype("self"));
  };
}

// aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)
// Of a tensor of rank 0, torch keeps the axis that was named.
void aminmax(Call& call) {
  Expr x = expr(call, call.value("self"));
  if (x.rank() > 0 || !call.has("dim") || !keepdim(call)) {
    extreme("reduce_min")(call);
    return extreme("reduce_max")(call);
  }
  axis_argument(call, "dim", x.shape());
  for (int i = 0; i < 2; ++i) call.result(reshape(x, {1}).v, call.dtype("self"));
}

// Position of the first extreme along an axis, which stays with size 1.
Value* first_extreme(Call& call, Value* x, std::int64_t axis, bool largest) {
  if (x->dtype() == DType::kBool) x = build::cast(call.b, x, DType::kU8);
  return call.b.make("argreduce", {x}, aspen::ArgReduceAttrs{axis, largest, true});
}

// argmax(Tensor self, int? dim=None, bool keepdim=False), argmin(...)
Handler arg_extreme(bool largest) {
  return [largest](Call& call) {
    Value* x = call.value("self");
    Shape shape = x->shape();
    if (x->rank() == 0) return call.result(build::full(call.b, DType::kI32, {}, 0), ScalarType::Long);
    if (!call.has("dim")) {
      Value* index = first_extreme(call, build::reshape(call.b, x, {x->type().numel()}), 0, largest);
      return call.result(build::reshape(call.b, index, keepdim(call) ? Shape(shape.size(), 1) : Shape{}),
                         ScalarType::Long);
    }
    std::int64_t axis = axis_argument(call, "dim", shape);
    Value* index = first_extreme(call, x, axis, largest);
    call.result(keepdim(call) ? index : build::squeeze(call.b, index, axis), ScalarType::Long);
  };
}

// max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices), min.dim(...)
// The gradient goes to the position returned.
Handler extreme_along(bool largest) {
  return [largest](Call& call) {
    Value* x = call.value("self");
    if (x->rank() == 0) {
      call.result(x, call.dtype("self"));
      return call.result(build::full(call.b, DType::kI32, {}, 0), ScalarType::Long);
    }
    std::int64_t axis = axis_argument(call, "dim", x->shape());
    Expr index = expr(call, first_extreme(call, x, axis, largest));
    Expr values = gather(expr(call, x), index, axis);
    bool keep = keepdim(call);
    call.result((keep ? values : squeeze(values, axis)).v, call.dtype("self"));
    call.result((keep ? index : squeeze(index, axis)).v, ScalarType::Long);
  };
}

// all(Tensor self), all.dim(Tensor self, int dim, bool keepdim=False), any(...), any.dim(...): uint8 answers in uint8
Handler quantifier(std::string op) {
  return [op](Call& call) { quantified(call, op, call.dtype("self") == ScalarType::Byte); };
}

// count_nonzero(Tensor self, int? dim=None), count_nonzero.dim_IntList(Tensor self, int[] dim)
void count_nonzero(Call& call) {
  Expr x = expr(call, operand(call, "self", ScalarType::Bool));
  call.result(sum(cast(x, DType::kI32), axes_argument(call, "dim", x.shape())).v, ScalarType::Long);
}

// logsumexp(Tensor self, int[1] dim, bool keepdim=False): shifted by the largest, which may be infinite
void logsumexp(Call& call) {
  Expr x = expr(call, floating_operand(call, "self"));
  Axes axes = axes_argument(call, "dim", x.shape());
  Expr wide = in_float(x);
  Expr top = detach(reduce_max(wide, axes, true));
  top = where(isinf(top), 0.0, top);
  Expr result = log(sum(exp(wide - top), axes, true)) + top;
  if (!keepdim(call)) {
    Shape shape;
    for (auto axis : all_axes(x.shape())) {
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) shape.push_back(x.size(axis));
    }
    result = reshape(result, std::move(shape));
  }
  call.result(cast(result, x.dtype()).v, floating_dtype(call, "self"));
}

// trace(Tensor self)
void trace(Call& call) {
  ScalarType type = sum_type(call.dtype("self"));
  Expr x = expr(call, operand(call, "self", type));
  if (x.rank() != 2) throw UserError("[trace] takes a matrix, not shape {}.", to_string(x.shape()));
  std::int64_t columns = x.size(1), count = std::min(x.size(0), columns);
  Expr flat = reshape(x, {x.numel()});
  std::int64_t end = count == 0 ? 0 : (count - 1) * (columns + 1) + 1;
  call.result(sum(slice(flat, 0, 0, end, columns + 1), {0}).v, type);
}

}  // namespace

void register_reductions(HandlerTable& table) {
  table.add("aten::sum", sum_of(false));
  table.add("aten::sum.dim_IntList", sum_of(false));
  table.add("aten::nansum", sum_of(true));
  table.add("aten::mean", mean_of);
  table.add("aten::mean.dim", mean_of);
  table.add("aten::prod", prod);
  table.add("aten::prod.dim_int", prod);
  table.add("aten::amax", extreme("reduce_max"));
  table.add("aten::amin", extreme("reduce_min"));
  table.add("aten::max", extreme("reduce_max"));
  table.add("aten::min", extreme("reduce_min"));
  table.add("aten::aminmax", aminmax);
  table.add("aten::argmax", arg_extreme(true));
  table.add("aten::argmin", arg_extreme(false));
  table.add("aten::max.dim", extreme_along(true));
  table.add("aten::min.dim", extreme_along(false));
  table.add("aten::all", quantifier("reduce_min"));
  table.add("aten::all.dim", quantifier("reduce_min"));
  table.add("aten::any", quantifier("reduce_max"));
  table.add("aten::any.dim", quantifier("reduce_max"));
  table.add("aten::count_nonzero", count_nonzero);
  table.add("aten::count_nonzero.dim_IntList", count_nonzero);
  table.add("aten::logsumexp", logsumexp);
  table.add("aten::trace", trace);
}

}  // namespace poptorch
