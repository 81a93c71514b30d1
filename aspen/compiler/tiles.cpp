#include "aspen/compiler/tiles.h"

#include <algorithm>

namespace aspen {
namespace {

constexpr std::int64_t kUnit = 16;  // elements that pieces of a row are multiples of: whole vectors

std::int64_t divided(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }
std::int64_t rounded_up(std::int64_t n, std::int64_t unit) { return divided(n, unit) * unit; }

}  // namespace

Tiles::Tiles(const Shape& shape, const std::vector<TileOperand>& operands, std::int64_t elements) {
  merge_axes(shape, operands);
  if (numel(shape) == 0) {
    pieces_ = 0;
    return;
  }
  cut_ = axes_.size() - 1;
  while (cut_ > 0 && row_ * axes_[cut_].extent <= elements) row_ *= axes_[cut_--].extent;
  const std::int64_t extent = axes_[cut_].extent;
  const std::int64_t wanted = std::clamp<std::int64_t>(elements / row_, 1, extent);
  // Pieces of about one size: a short one at the end of every row would cost as much as the others.
  rows_ = rounded_up(divided(extent, std::max<std::int64_t>(1, (extent + wanted / 2) / wanted)), row_ == 1 ? kUnit : 1);
  rows_ = std::min(rows_, extent);
  pieces_ = divided(extent, rows_);
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

void Tiles::offsets(Place at, std::int64_t* of_operand) const {
  for (std::size_t k = 0; k < offsets_.size(); ++k) {
    of_operand[k] = offsets_[k] + at.piece * rows_ * axes_[cut_].strides[k];
  }
  std::int64_t outer = at.outer;
  for (std::size_t i = cut_; i-- > 0;) {
    const std::int64_t index = i == 0 ? outer : outer % axes_[i].extent;
    if (i > 0) outer /= axes_[i].extent;
    for (std::size_t k = 0; k < offsets_.size(); ++k) of_operand[k] += index * axes_[i].strides[k];
  }
}

}  // namespace aspen
