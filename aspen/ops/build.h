// Shortcuts over Builder::make for the ops that gradients, passes and lowerings use most. Same names as the
// ops. Binary ops broadcast by numpy rules and take equal element types.
#pragma once

#include "aspen/compiler/ir/builder.h"

namespace aspen::build {

// Sources. `like` variants take element type and shape of a value.
Value* full(Builder& b, DType dtype, Shape shape, double value);
Value* full_like(Builder& b, Value* like, double value);
Value* scalar(Builder& b, DType dtype, double value);  // rank 0
Value* iota(Builder& b, DType dtype, std::int64_t size, double start = 0, double step = 1);
Value* constant(Builder& b, TensorType type, std::vector<std::byte> bytes);
Value* constant_i32(Builder& b, const Shape& shape, const std::vector<std::int32_t>& values);

Value* cast(Builder& b, Value* x, DType dtype);  // x itself if nothing changes

// Shape. Each returns x itself where nothing would change.
Value* reshape(Builder& b, Value* x, Shape shape);
Value* transpose(Builder& b, Value* x, std::vector<std::int64_t> permutation);
Value* swap_axes(Builder& b, Value* x, std::int64_t a, std::int64_t c);
Value* broadcast(Builder& b, Value* x, Shape shape);
Value* slice(Builder& b, Value* x, std::int64_t axis, std::int64_t start, std::int64_t end, std::int64_t step = 1);
Value* select_row(Builder& b, Value* x, std::int64_t axis, std::int64_t index);  // drops the axis
Value* concat(Builder& b, std::vector<Value*> xs, std::int64_t axis);
Value* unsqueeze(Builder& b, Value* x, std::int64_t axis);
Value* squeeze(Builder& b, Value* x, std::int64_t axis);

// Elementwise.
Value* unary(Builder& b, std::string_view op, Value* x);
Value* binary(Builder& b, std::string_view op, Value* x, Value* y);
Value* binary(Builder& b, std::string_view op, Value* x, double y);  // y as a scalar of x's element type
Value* add(Builder& b, Value* x, Value* y);
Value* sub(Builder& b, Value* x, Value* y);
Value* mul(Builder& b, Value* x, Value* y);
Value* div(Builder& b, Value* x, Value* y);
Value* add(Builder& b, Value* x, double y);
Value* mul(Builder& b, Value* x, double y);
Value* neg(Builder& b, Value* x);
Value* select(Builder& b, Value* condition, Value* x, Value* y);

// Reductions over `axes` (negative allowed; empty list: nothing is reduced).
Value* reduce(Builder& b, std::string_view op, Value* x, std::vector<std::int64_t> axes, bool keep_axes = false);
Value* reduce_sum(Builder& b, Value* x, std::vector<std::int64_t> axes, bool keep_axes = false);
Value* reduce_all(Builder& b, std::string_view op, Value* x);
Value* mean(Builder& b, Value* x, std::vector<std::int64_t> axes, bool keep_axes = false);
// Sums x down to `shape`, undoing a broadcast from it.
Value* reduce_to(Builder& b, Value* x, const Shape& shape);

Value* dot(Builder& b, Value* x, Value* y, bool transpose_x = false, bool transpose_y = false);

}  // namespace aspen::build
