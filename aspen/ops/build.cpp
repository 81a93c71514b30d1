#include "aspen/ops/build.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "aspen/ops/cast/cast.h"
#include "aspen/ops/dot/dot.h"
#include "aspen/ops/reduce/reduce.h"
#include "aspen/ops/shape/shape.h"
#include "aspen/ops/source/source.h"

namespace aspen::build {

Value* full(Builder& b, DType dtype, Shape shape, double value) {
  return b.make("full", {}, FullAttrs{dtype, std::move(shape), value});
}

Value* full_like(Builder& b, Value* like, double value) { return full(b, like->dtype(), like->shape(), value); }

Value* scalar(Builder& b, DType dtype, double value) { return full(b, dtype, {}, value); }

Value* iota(Builder& b, DType dtype, std::int64_t size, double start, double step) {
  return b.make("iota", {}, IotaAttrs{dtype, size, start, step});
}

Value* constant(Builder& b, TensorType type, std::vector<std::byte> bytes) {
  auto shared = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return b.make("constant", {}, ConstantAttrs{type.dtype, type.shape, Blob{std::move(shared)}});
}

Value* constant_i32(Builder& b, const Shape& shape, const std::vector<std::int32_t>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(std::int32_t));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return constant(b, {DType::kI32, shape}, std::move(bytes));
}

Value* cast(Builder& b, Value* x, DType dtype) {
  return x->dtype() == dtype ? x : b.make("cast", {x}, CastAttrs{dtype});
}

Value* reshape(Builder& b, Value* x, Shape shape) {
  return x->shape() == shape ? x : b.make("reshape", {x}, ReshapeAttrs{std::move(shape)});
}

Value* transpose(Builder& b, Value* x, std::vector<std::int64_t> permutation) {
  if (std::is_sorted(permutation.begin(), permutation.end())) return x;
  return b.make("transpose", {x}, TransposeAttrs{std::move(permutation)});
}

Value* swap_axes(Builder& b, Value* x, std::int64_t a, std::int64_t c) {
  std::vector<std::int64_t> permutation(x->shape().size());
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[normalize_axis(a, x->shape(), "transpose")],
            permutation[normalize_axis(c, x->shape(), "transpose")]);
  return transpose(b, x, std::move(permutation));
}

Value* broadcast(Builder& b, Value* x, Shape shape) {
  return x->shape() == shape ? x : b.make("broadcast", {x}, BroadcastAttrs{std::move(shape)});
}

Value* slice(Builder& b, Value* x, std::int64_t axis, std::int64_t start, std::int64_t end, std::int64_t step) {
  axis = normalize_axis(axis, x->shape(), "slice");
  if (start == 0 && end == x->shape()[axis] && step == 1) return x;
  SliceAttrs attrs{Shape(x->rank(), 0), x->shape(), Shape(x->rank(), 1)};
  attrs.starts[axis] = start;
  attrs.ends[axis] = end;
  attrs.steps[axis] = step;
  return b.make("slice", {x}, std::move(attrs));
}

Value* select_row(Builder& b, Value* x, std::int64_t axis, std::int64_t index) {
  axis = normalize_axis(axis, x->shape(), "select");
  return squeeze(b, slice(b, x, axis, index, index + 1), axis);
}

Value* concat(Builder& b, std::vector<Value*> xs, std::int64_t axis) {
  if (xs.size() == 1) return xs[0];
  axis = normalize_axis(axis, xs[0]->shape(), "concat");
  return b.make("concat", std::move(xs), ConcatAttrs{axis});
}

Value* unsqueeze(Builder& b, Value* x, std::int64_t axis) {
  Shape shape = x->shape();
  shape.insert(shape.begin() + (axis < 0 ? axis + x->rank() + 1 : axis), 1);
  return reshape(b, x, std::move(shape));
}

Value* squeeze(Builder& b, Value* x, std::int64_t axis) {
  Shape shape = x->shape();
  shape.erase(shape.begin() + normalize_axis(axis, shape, "squeeze"));
  return reshape(b, x, std::move(shape));
}

Value* unary(Builder& b, std::string_view op, Value* x) { return b.make(op, {x}); }

Value* binary(Builder& b, std::string_view op, Value* x, Value* y) { return b.make(op, {x, y}); }

Value* binary(Builder& b, std::string_view op, Value* x, double y) { return b.make(op, {x, scalar(b, x->dtype(), y)}); }

Value* add(Builder& b, Value* x, Value* y) { return binary(b, "add", x, y); }
Value* sub(Builder& b, Value* x, Value* y) { return binary(b, "sub", x, y); }
Value* mul(Builder& b, Value* x, Value* y) { return binary(b, "mul", x, y); }
Value* div(Builder& b, Value* x, Value* y) { return binary(b, "div", x, y); }
Value* add(Builder& b, Value* x, double y) { return binary(b, "add", x, y); }
Value* mul(Builder& b, Value* x, double y) { return binary(b, "mul", x, y); }
Value* neg(Builder& b, Value* x) { return unary(b, "neg", x); }

Value* select(Builder& b, Value* condition, Value* x, Value* y) { return b.make("select", {condition, x, y}); }

Value* reduce(Builder& b, std::string_view op, Value* x, std::vector<std::int64_t> axes, bool keep_axes) {
  if (axes.empty()) return x;
  for (auto& axis : axes) axis = normalize_axis(axis, x->shape(), "reduce");
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return b.make(op, {x}, ReduceAttrs{std::move(axes), keep_axes});
}

Value* reduce_sum(Builder& b, Value* x, std::vector<std::int64_t> axes, bool keep_axes) {
  return reduce(b, "reduce_sum", x, std::move(axes), keep_axes);
}

Value* reduce_all(Builder& b, std::string_view op, Value* x) {
  std::vector<std::int64_t> axes(x->shape().size());
  std::iota(axes.begin(), axes.end(), 0);
  return reduce(b, op, x, std::move(axes));
}

Value* mean(Builder& b, Value* x, std::vector<std::int64_t> axes, bool keep_axes) {
  Value* sum = reduce_sum(b, x, std::move(axes), keep_axes);
  double count = static_cast<double>(numel(x->shape())) / static_cast<double>(numel(sum->shape()));
  return binary(b, "div", sum, count);
}

Value* reduce_to(Builder& b, Value* x, const Shape& shape) {
  if (x->shape() == shape) return x;
  std::vector<std::int64_t> axes;
  auto added = x->rank() - static_cast<std::int64_t>(shape.size());
  for (std::int64_t i = 0; i < x->rank(); ++i) {
    if (i < added || (shape[i - added] == 1 && x->shape()[i] != 1)) axes.push_back(i);
  }
  return reshape(b, reduce_sum(b, x, std::move(axes)), shape);
}

Value* dot(Builder& b, Value* x, Value* y, bool transpose_x, bool transpose_y) {
  return b.make("dot", {x, y}, DotAttrs{transpose_x, transpose_y});
}

}  // namespace aspen::build
