// ChainMaker: writes the chain of shape ops behind a view, keeping track of the shape it has reached.
// Used by handlers whose result shares storage with their argument.
#pragma once

#include "poptorch/aten/support/arguments.h"

namespace poptorch {

class ChainMaker {
 public:
  explicit ChainMaker(Shape shape) : shape_(std::move(shape)) {}

  ChainMaker& reshape(Shape shape);
  ChainMaker& transpose(Axes permutation);
  ChainMaker& swap(std::int64_t a, std::int64_t b);
  ChainMaker& slice(std::int64_t axis, std::int64_t start, std::int64_t end, std::int64_t step = 1);
  ChainMaker& row(std::int64_t axis, std::int64_t index);  // slices one row and drops the axis
  ChainMaker& unsqueeze(std::int64_t axis);
  ChainMaker& squeeze(std::int64_t axis);
  ChainMaker& broadcast(Shape shape);
  ChainMaker& diagonal(std::int64_t offset, std::int64_t axis1, std::int64_t axis2);  // becomes the last axis

  const Shape& shape() const { return shape_; }
  const Call::ViewChain& steps() const { return steps_; }
  // The same steps as ops on a value.
  Value* apply(Builder& b, Value* x) const;

 private:
  Shape shape_;
  Call::ViewChain steps_;
};

// Sizes with at most one -1, which is computed from the number of elements.
Shape complete_shape(Shape sizes, std::int64_t numel, const std::string& who);

// Start and end of a Python slice of an axis of `size` elements: negatives count from the end, then both are
// clamped.
struct Bounds {
  std::int64_t start, end;
};
Bounds slice_bounds(std::int64_t start, std::int64_t end, std::int64_t size);

}  // namespace poptorch
