// Choosing by a mask: where, masked fills, triangles, and writes into a slice, a row or a diagonal of a copy.
#include "aspen/ops/shape/shape.h"
#include "poptorch/aten/support/expression.h"
#include "poptorch/aten/support/view_chain.h"

namespace poptorch {
namespace {

Expr mask_argument(Call& call, std::string_view argument) {
  return expr(call, operand(call, argument, ScalarType::Bool));
}

// where.self(Tensor condition, Tensor self, Tensor other), where.ScalarOther(Tensor condition, Tensor self, Scalar
// other), where.ScalarSelf(Tensor condition, Scalar self, Tensor other), where.Scalar(Tensor condition, Scalar, Scalar)
void where_of(Call& call) {
  ScalarType type = call.result_type({"self", "other"});
  Expr x = expr(call, operand(call, "self", type)), y = expr(call, operand(call, "other", type));
  call.result(where(mask_argument(call, "condition"), x, y).v, type);
}

// masked_fill.Scalar(Tensor self, Tensor mask, Scalar value), masked_fill.Tensor(Tensor self, Tensor mask, Tensor
// value)
void masked_fill(Call& call) {
  ScalarType type = call.dtype("self");
  Expr x = expr(call, call.value("self")), value = expr(call, operand(call, "value", type));
  call.result(where(mask_argument(call, "mask"), value, x).v, type);
}

// masked_scatter(Tensor self, Tensor mask, Tensor source): the elements of source, one after the other, where the mask
// is set. The n-th place set takes element n.
void masked_scatter(Call& call) {
  ScalarType type = call.dtype("self");
  Shape shape = aspen::broadcast_shapes(call.value("self")->shape(), call.value("mask")->shape(), "masked_scatter");
  Expr x = broadcast(expr(call, call.value("self")), shape), mask = broadcast(mask_argument(call, "mask"), shape);
  Expr source = expr(call, operand(call, "source", type));
  Expr order = cumsum(cast(reshape(mask, {mask.numel()}), DType::kI32), 0) - 1.0;
  Expr index = clamp(order, 0, static_cast<double>(source.numel() - 1));
  Expr values = reshape(take(reshape(source, {source.numel()}), index, 0), shape);
  call.result(where(mask, values, x).v, type);
}

// tril(Tensor self, int diagonal=0), triu(Tensor self, int diagonal=0)
Handler triangle(bool lower) {
  return [lower](Call& call) {
    Expr x = expr(call, call.value("self"));
    if (x.rank() < 2)
      throw UserError("[{}] needs at least 2 axes, not shape {}.", lower ? "tril" : "triu", to_string(x.shape()));
    double diagonal = static_cast<double>(call.integer("diagonal"));
    Expr row = positions(call.b, 2, 0, x.size(x.rank() - 2)), column = positions(call.b, 2, 1, x.size(x.rank() - 1));
    Expr kept = lower ? column <= row + diagonal : column >= row + diagonal;
    call.result(where(kept, x, 0.0).v, call.dtype("self"));
  };
}

Expr update(Call& call, Expr x, Expr part, aspen::SliceAttrs attrs) {
  return expr(call, call.b.make("slice_update", {x.v, part.v}, std::move(attrs)));
}

aspen::SliceAttrs whole(const Expr& x) { return {Shape(x.shape().size(), 0), x.shape(), Shape(x.shape().size(), 1)}; }

// slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1)
void slice_scatter(Call& call) {
  Expr x = expr(call, call.value("self")), part = expr(call, operand(call, "src", call.dtype("self")));
  std::int64_t axis = axis_argument(call, "dim", x.shape());
  auto [start, end] =
      slice_bounds(integer_or(call, "start", 0), integer_or(call, "end", std::numeric_limits<std::int64_t>::max()),
                   x.shape().at(axis));
  aspen::SliceAttrs attrs = whole(x);
  attrs.starts[axis] = start;
  attrs.ends[axis] = end;
  attrs.steps[axis] = call.integer("step");
  call.result(update(call, x, part, std::move(attrs)).v, call.dtype("self"));
}

// select_scatter(Tensor self, Tensor src, int dim, int index)
void select_scatter(Call& call) {
  Expr x = expr(call, call.value("self")), part = expr(call, operand(call, "src", call.dtype("self")));
  std::int64_t axis = axis_argument(call, "dim", x.shape()), size = x.shape().at(axis), index = call.integer("index");
  if (index < -size || index >= size)
    throw UserError("[select_scatter] index {} is out of range for axis {} of size {}.", index, axis, size);
  if (index < 0) index += size;
  aspen::SliceAttrs attrs = whole(x);
  attrs.starts[axis] = index;
  attrs.ends[axis] = index + 1;
  call.result(update(call, x, unsqueeze(part, axis), std::move(attrs)).v, call.dtype("self"));
}

// diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1): the last step of the view of the
// diagonal is a slice of merged axes; it is replaced by an update and the steps before it are undone.
void diagonal_scatter(Call& call) {
  Expr x = expr(call, call.value("self")), part = expr(call, operand(call, "src", call.dtype("self")));
  std::int64_t axis1 = axis_argument(call, "dim1", x.shape()), axis2 = axis_argument(call, "dim2", x.shape());
  Axes permutation;
  for (auto axis : all_axes(x.shape())) {
    if (axis != axis1 && axis != axis2) permutation.push_back(axis);
  }
  permutation.push_back(axis1);
  permutation.push_back(axis2);
  Expr last = transpose(x, permutation);
  std::int64_t rows = last.size(x.rank() - 2), columns = last.size(x.rank() - 1), offset = call.integer("offset");
  Shape merged(last.shape().begin(), last.shape().end() - 2);
  merged.push_back(rows * columns);
  Expr flat = reshape(last, merged);
  std::int64_t first_row = std::max<std::int64_t>(-offset, 0), first_column = std::max<std::int64_t>(offset, 0);
  std::int64_t count = part.shape().back();
  aspen::SliceAttrs attrs = whole(flat);
  attrs.starts.back() = first_row * columns + first_column;
  attrs.ends.back() = attrs.starts.back() + (count - 1) * (columns + 1) + 1;
  attrs.steps.back() = columns + 1;
  if (count == 0) return call.result(x.v, call.dtype("self"));
  Expr written = reshape(update(call, flat, part, std::move(attrs)), last.shape());
  Axes inverse(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) inverse[permutation[i]] = static_cast<std::int64_t>(i);
  call.result(transpose(written, inverse).v, call.dtype("self"));
}

// diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1): zeros put after each element of the last axis bring
// element i to place i * (n + 1) of an n x n matrix; the offset is padding above or to the left.
Expr embed_diagonal(Expr x, std::int64_t offset) {
  std::int64_t n = x.shape().back(), last = x.rank();
  Shape flat(x.shape().begin(), x.shape().end() - 1);
  Shape square = flat;
  flat.push_back(n * (n + 1));
  square.insert(square.end(), {n, n});
  Expr spread = reshape(pad_axis(unsqueeze(x, last), last, 0, n), flat);
  Expr y = reshape(slice(spread, last - 1, 0, n * n), square);
  Shape low(square.size(), 0), high(square.size(), 0);
  (offset < 0 ? low : high)[square.size() - 2] = std::abs(offset);
  (offset < 0 ? high : low)[square.size() - 1] = std::abs(offset);
  return pad(y, low, high);
}

void diag_embed(Call& call) {
  Expr x = expr(call, call.value("self"));
  Shape result_axes(x.shape().size() + 1, 1);
  std::int64_t axis1 = axis_argument(call, "dim1", result_axes), axis2 = axis_argument(call, "dim2", result_axes);
  if (axis1 == axis2) throw UserError("[diag_embed] dim1 and dim2 are both {}; expected two axes.", axis1);
  Expr y = embed_diagonal(x, call.integer("offset"));
  // Rows and columns are last; output axis i comes from `from[i]`.
  Axes from;
  std::int64_t next = 0;
  for (std::int64_t axis = 0; axis < y.rank(); ++axis) {
    from.push_back(axis == axis1 ? y.rank() - 2 : axis == axis2 ? y.rank() - 1 : next++);
  }
  call.result(transpose(y, from).v, call.dtype("self"));
}

// diag(Tensor self, int diagonal=0): a vector to a matrix, a matrix to its diagonal (a copy)
void diag(Call& call) {
  Value* x = call.value("self");
  if (x->rank() == 1) return call.result(embed_diagonal(expr(call, x), call.integer("diagonal")).v, call.dtype("self"));
  if (x->rank() != 2) throw UserError("[diag] takes a vector or a matrix, not shape {}.", to_string(x->shape()));
  call.result(ChainMaker(x->shape()).diagonal(call.integer("diagonal"), 0, 1).apply(call.b, x), call.dtype("self"));
}

// as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None): a copy of
// self with src written over a view of its memory
void as_strided_scatter(Call& call) {
  if (!call.is_contiguous("self")) decline("as_strided_scatter of a tensor that is not contiguous");
  Expr x = expr(call, call.value("self")), part = expr(call, operand(call, "src", call.dtype("self")));
  std::vector<std::int64_t> size = call.integers("size"), stride = call.integers("stride");
  std::vector<std::int32_t> places{static_cast<std::int32_t>(integer_or(call, "storage_offset", 0))};
  for (std::size_t axis = 0; axis < size.size(); ++axis) {
    std::vector<std::int32_t> finer;
    for (std::int32_t place : places) {
      for (std::int64_t i = 0; i < size[axis]; ++i)
        finer.push_back(static_cast<std::int32_t>(place + i * stride[axis]));
    }
    places = std::move(finer);
  }
  for (std::int32_t place : places) {
    if (place < 0 || place >= x.numel())
      throw UserError("[as_strided_scatter] size {} and stride {} reach element {} of a tensor of {}.", to_string(size),
                      to_string(stride), place, x.numel());
  }
  std::int64_t count = static_cast<std::int64_t>(places.size());
  Expr written =
      scatter_rows(reshape(x, {x.numel()}), constant_i32(call.b, {count}, places), reshape(part, {count}), 0, "set");
  call.result(reshape(written, x.shape()).v, call.dtype("self"));
}

// narrow_copy(Tensor self, int dim, SymInt start, SymInt length)
void narrow_copy(Call& call) {
  Expr x = expr(call, call.value("self"));
  std::int64_t axis = axis_argument(call, "dim", x.shape()), start = call.integer("start"), size = x.size(axis);
  std::int64_t length = call.integer("length");
  if (start < 0) start += size;
  if (start < 0 || length < 0 || start + length > size) {
    throw UserError("[narrow] start {} and length {} do not fit axis {} of size {}.", call.integer("start"), length,
                    axis, size);
  }
  call.result(slice(x, axis, start, start + length).v, call.dtype("self"));
}

// narrow.Tensor(Tensor(a) self, int dim, Tensor start, int length): from a place computed in the model; a copy
void narrow_from(Call& call) {
  if (call.known("start")) decline("a start that is known: a view");
  Expr x = expr(call, call.value("self"));
  std::int64_t axis = axis_argument(call, "dim", x.shape()), size = x.size(axis), length = call.integer("length");
  if (length < 0 || length > size)
    throw UserError("[narrow] length {} does not fit axis {} of size {}.", length, axis, size);
  Expr start = reshape(cast(expr(call, call.value("start")), DType::kI32), {});
  start = where(start < 0.0, start + static_cast<double>(size), start);
  start = check_range(start, 0, size - length, "narrow", "start",
                      fmt::format("{} elements of an axis of size {}", length, size));
  call.result(take(x, iota(call.b, DType::kI32, length) + start, axis).v, call.dtype("self"));
}

}  // namespace

void register_selection(HandlerTable& table) {
  for (const char* overload : {".self", ".ScalarOther", ".ScalarSelf", ".Scalar"})
    table.add(std::string("aten::where") + overload, where_of);
  table.add("aten::masked_fill.Scalar", masked_fill);
  table.add("aten::masked_fill.Tensor", masked_fill);
  table.add("aten::masked_scatter", masked_scatter);
  table.add("aten::tril", triangle(true));
  table.add("aten::triu", triangle(false));
  table.add("aten::slice_scatter", slice_scatter);
  table.add("aten::select_scatter", select_scatter);
  table.add("aten::diagonal_scatter", diagonal_scatter);
  table.add("aten::diag_embed", diag_embed);
  table.add("aten::diag", diag);
  table.add("aten::as_strided_scatter", as_strided_scatter);
  table.add("aten::narrow_copy", narrow_copy);
  table.add("aten::narrow.Tensor", narrow_from);
}

}  // namespace poptorch
