#include "poptorch/aten/support/view_chain.h"

#include <algorithm>

#include "aspen/ops/shape/shape.h"

namespace poptorch {

using aspen::Attrs;

ChainMaker& ChainMaker::reshape(Shape shape) {
  if (shape == shape_) return *this;
  shape_ = shape;
  steps_.push_back({"reshape", Attrs::of(aspen::ReshapeAttrs{std::move(shape)})});
  return *this;
}

ChainMaker& ChainMaker::transpose(Axes permutation) {
  if (std::is_sorted(permutation.begin(), permutation.end())) return *this;
  Shape shape;
  for (auto axis : permutation) shape.push_back(shape_[axis]);
  shape_ = std::move(shape);
  steps_.push_back({"transpose", Attrs::of(aspen::TransposeAttrs{std::move(permutation)})});
  return *this;
}

ChainMaker& ChainMaker::swap(std::int64_t a, std::int64_t b) {
  Axes permutation = all_axes(shape_);
  std::swap(permutation[a], permutation[b]);
  return transpose(std::move(permutation));
}

ChainMaker& ChainMaker::slice(std::int64_t axis, std::int64_t start, std::int64_t end, std::int64_t step) {
  if (start == 0 && end == shape_[axis] && step == 1) return *this;
  aspen::SliceAttrs attrs{Shape(shape_.size(), 0), shape_, Shape(shape_.size(), 1)};
  attrs.starts[axis] = start;
  attrs.ends[axis] = end;
  attrs.steps[axis] = step;
  shape_[axis] = (end - start + step - 1) / step;
  steps_.push_back({"slice", Attrs::of(std::move(attrs))});
  return *this;
}

ChainMaker& ChainMaker::row(std::int64_t axis, std::int64_t index) {
  return slice(axis, index, index + 1).squeeze(axis);
}

ChainMaker& ChainMaker::unsqueeze(std::int64_t axis) {
  Shape shape = shape_;
  shape.insert(shape.begin() + axis, 1);
  return reshape(std::move(shape));
}

ChainMaker& ChainMaker::squeeze(std::int64_t axis) {
  Shape shape = shape_;
  shape.erase(shape.begin() + axis);
  return reshape(std::move(shape));
}

ChainMaker& ChainMaker::broadcast(Shape shape) {
  if (shape == shape_) return *this;
  shape_ = shape;
  steps_.push_back({"broadcast", Attrs::of(aspen::BroadcastAttrs{std::move(shape)})});
  return *this;
}

// With both axes last and merged into one of rows * columns elements, neighbours on a diagonal are columns + 1
// elements apart.
ChainMaker& ChainMaker::diagonal(std::int64_t offset, std::int64_t axis1, std::int64_t axis2) {
  Axes permutation;
  for (auto axis : all_axes(shape_)) {
    if (axis != axis1 && axis != axis2) permutation.push_back(axis);
  }
  permutation.push_back(axis1);
  permutation.push_back(axis2);
  transpose(std::move(permutation));
  std::int64_t columns = shape_.back(), rows = shape_[shape_.size() - 2];
  std::int64_t first_row = std::max<std::int64_t>(-offset, 0), first_column = std::max<std::int64_t>(offset, 0);
  std::int64_t count = std::max<std::int64_t>(std::min(rows - first_row, columns - first_column), 0);
  Shape merged(shape_.begin(), shape_.end() - 2);
  merged.push_back(rows * columns);
  reshape(std::move(merged));
  std::int64_t start = count == 0 ? 0 : first_row * columns + first_column;
  std::int64_t end = count == 0 ? 0 : start + (count - 1) * (columns + 1) + 1;
  return slice(static_cast<std::int64_t>(shape_.size()) - 1, start, end, columns + 1);
}

Value* ChainMaker::apply(Builder& b, Value* x) const {
  for (const auto& step : steps_) x = b.emit(step.op, {x}, step.attrs)->output(0);
  return x;
}

Shape complete_shape(Shape sizes, std::int64_t numel, const std::string& who) {
  auto open = std::find(sizes.begin(), sizes.end(), -1);
  Shape asked = sizes;
  if (open != sizes.end()) {
    *open = 1;
    std::int64_t known = aspen::numel(sizes);
    if (known != 0) *open = numel / known;
  }
  if (aspen::numel(sizes) != numel) {
    throw UserError("[{}] shape {} does not fit a tensor of {} elements.", who, aspen::to_string(asked), numel);
  }
  return sizes;
}

Bounds slice_bounds(std::int64_t start, std::int64_t end, std::int64_t size) {
  if (start < 0) start += size;
  if (end < 0) end += size;
  start = std::clamp<std::int64_t>(start, 0, size);
  end = std::clamp<std::int64_t>(end, start, size);
  return {start, end};
}

}  // namespace poptorch
