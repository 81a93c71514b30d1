#include "aspen/compiler/tiles.h"

#include <algorithm>

namespace aspen {

Tiles::Tiles(const Shape& shape, const std::vector<TileOperand>& operands, std::int64_t elements) {
  merge_axes(shape, operands);
  if (numel(shape) == 0) {
    pieces_ = 0;
    return;
  }
  cut_ = axes_.size() - 1;
  while (cut_ > 0 && row_ * axes_[cut_].extent <= elements) row_ *= axes_[cut_--].extent;
  const std::int64_t extent = axes_[cut_].extent;
  rows_ = std::clamp<std::int64_t>(elements / row_, 1, extent);
  pieces_ = (extent + rows_ - 1) / rows_;
  tail_ = extent - (pieces_ - 1) * rows_;
  for (std::size_t i = 0; i < cut_; ++i) num_outer_ *= axes_[i].extent;
}

void Tiles::merge_axes(const Shape& shape, const std::vector<TileOperand>& operands) {
  for (const TileOperand& operand : operands) offsets_.push_back(operand.offset);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    Axis axis{.extent = shape[i], .strides = {}};
    for (const TileOperand& operand : operands) axis.strides.push_back(operand.strides[i]);
    bool is_joined = !axes_.empty();
    for (std::size_t k = 0; is_joined && k < operands.size(); ++k) {
      is_joined = axes_.back().strides[k] == axis.strides[k] * axis.extent;
    }
    if (is_joined) {
      axes_.back().extent *= axis.extent;
      axes_.back().strides = std::move(axis.strides);
    } else {
      axes_.push_back(std::move(axis));
    }
  }
  if (axes_.empty()) axes_.push_back({.extent = 1, .strides = std::vector<std::int64_t>(operands.size(), 0)});
}

Shape Tiles::operand_shape(std::size_t k, bool is_tail) const {
  Shape shape;
  for (std::size_t i = cut_; i < axes_.size(); ++i) {
    const std::int64_t extent = i > cut_ ? axes_[i].extent : is_tail ? tail_ : rows_;
    shape.push_back(axes_[i].strides[k] == 0 ? 1 : extent);
  }
  return shape;
}

std::vector<Tiles::Run> Tiles::runs(std::size_t k) const {
  std::vector<Run> runs{{0, 1}};
  for (std::size_t i = axes_.size(); i-- > cut_;) {
    const std::int64_t stride = axes_[i].strides[k], extent = i > cut_ ? axes_[i].extent : rows_;
    if (stride == 0) continue;
    if (runs.size() == 1 && stride == runs[0].size) {
      runs[0].size *= extent;
      continue;
    }
    const std::size_t inner = runs.size();
    for (std::int64_t n = 1; n < extent; ++n) {
      for (std::size_t run = 0; run < inner; ++run) runs.push_back({runs[run].offset + n * stride, runs[run].size});
    }
  }
  return runs;
}

std::int64_t Tiles::offset(std::size_t k, Place at) const {
  std::int64_t result = offsets_[k] + at.piece * rows_ * axes_[cut_].strides[k];
  std::int64_t outer = at.outer;
  for (std::size_t i = cut_; i-- > 0;) {
    result += outer % axes_[i].extent * axes_[i].strides[k];
    outer /= axes_[i].extent;
  }
  return result;
}

}  // namespace aspen
