// StridedRows: walks N operands over one index space, each with its own strides, row by row. Broadcasting is a
// stride of 0, a reduction is a walk over the kept axes around one over the reduced axes. Made once with the
// kernel; walking allocates nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "aspen/base/error.h"
#include "aspen/base/tensor_type.h"

namespace aspen {

template <std::size_t N>
class StridedRows {
 public:
  using Offsets = std::array<std::int64_t, N>;

  StridedRows() = default;

  // strides[k][axis] belongs to operand k; axes are merged where every operand allows it, so that rows are long.
  StridedRows(const Shape& extents, const std::array<std::vector<std::int64_t>, N>& strides) {
    std::vector<Axis> merged;  // innermost first
    for (std::size_t i = extents.size(); i-- > 0;) {
      if (extents[i] == 1) continue;
      Axis axis{extents[i], {}};
      for (std::size_t k = 0; k < N; ++k) axis.strides[k] = strides[k][i];
      if (!merged.empty() && merged.back().continues_with(axis)) {
        merged.back().extent *= axis.extent;
      } else {
        merged.push_back(axis);
      }
    }
    if (!merged.empty()) {
      row_ = merged.front();
      outer_.assign(merged.begin() + 1, merged.end());
    }
    if (outer_.size() > kMaxAxes) throw UserError("a tensor of more than {} axes: {}.", kMaxAxes, to_string(extents));
    for (const Axis& axis : outer_) num_rows_ *= axis.extent;
  }

  std::int64_t row_size() const { return row_.extent; }
  std::int64_t num_rows() const { return num_rows_; }
  std::int64_t size() const { return num_rows_ * row_.extent; }
  const Offsets& strides() const { return row_.strides; }  // along a row
  // From one row to the next, if all rows are equally far apart.
  const Offsets* row_steps() const { return outer_.size() == 1 ? &outer_[0].strides : nullptr; }

  // Where row r starts in each operand.
  Offsets offsets(std::int64_t r) const {
    Offsets result{};
    for (const Axis& axis : outer_) {
      std::int64_t i = r % axis.extent;
      r /= axis.extent;
      for (std::size_t k = 0; k < N; ++k) result[k] += i * axis.strides[k];
    }
    return result;
  }

  // Calls row(first, offsets) for every row; `first` counts the elements before it.
  template <class F>
  void for_each_row(F&& row) const {
    for_each_row_in(0, num_rows_, row);
  }
  // The same for the rows begin, ..., end - 1 alone.
  template <class F>
  void for_each_row_in(std::int64_t begin, std::int64_t end, F&& row) const {
    if (begin >= end) return;  // an axis may have no extent
    if (outer_.empty()) {      // without the counters, which a tile of a group would notice
      if (row_.extent > 0) row(std::int64_t{0}, Offsets{});
      return;
    }
    Index index{};
    Offsets at = offsets(begin);
    std::int64_t r = begin;
    for (std::size_t a = 0; a < outer_.size(); ++a) {
      index[a] = r % outer_[a].extent;
      r /= outer_[a].extent;
    }
    walk(begin, end, index, at, row);
  }

  // Calls element(i, offsets) for the elements begin, ..., end - 1.
  template <class F>
  void for_each_element_in(std::int64_t begin, std::int64_t end, F&& element) const {
    if (begin >= end) return;
    std::int64_t n = row_.extent;
    for_each_row_in(begin / n, (end + n - 1) / n, [&](std::int64_t first, const Offsets& offsets) {
      for (std::int64_t i = std::max(begin - first, std::int64_t{0}); i < std::min(n, end - first); ++i) {
        Offsets at = offsets;
        for (std::size_t k = 0; k < N; ++k) at[k] += i * row_.strides[k];
        element(first + i, at);
      }
    });
  }

 private:
  static constexpr std::size_t kMaxAxes = 64;

  struct Axis {
    std::int64_t extent = 1;
    Offsets strides{};
    bool continues_with(const Axis& outer) const {
      for (std::size_t k = 0; k < N; ++k) {
        if (outer.strides[k] != strides[k] * extent) return false;
      }
      return true;
    }
  };

  using Index = std::array<std::int64_t, kMaxAxes>;

  // Counts like an odometer, since a division per row would cost more than a short row does.
  template <class F>
  void walk(std::int64_t begin, std::int64_t end, Index& index, Offsets& at, F&& row) const {
    if (row_.extent == 0) return;
    for (std::int64_t r = begin; r < end; ++r) {
      row(r * row_.extent, std::as_const(at));
      for (std::size_t a = 0; a < outer_.size(); ++a) {
        const Axis& axis = outer_[a];
        for (std::size_t k = 0; k < N; ++k) at[k] += axis.strides[k];
        if (++index[a] < axis.extent) break;
        index[a] = 0;
        for (std::size_t k = 0; k < N; ++k) at[k] -= axis.extent * axis.strides[k];
      }
    }
  }

  Axis row_;
  std::vector<Axis> outer_;  // innermost first
  std::int64_t num_rows_ = 1;
};

// Strides with which a contiguous tensor of shape `from` is read as if it had shape `to`.
inline std::vector<std::int64_t> broadcast_strides(const Shape& from, const Shape& to) {
  std::vector<std::int64_t> own = contiguous_strides(from), strides(to.size(), 0);
  std::size_t added = to.size() - from.size();
  for (std::size_t i = 0; i < from.size(); ++i) strides[added + i] = from[i] == 1 ? 0 : own[i];
  return strides;
}

// Rows of the operands of an elementwise op; `first` then is the place in the output.
template <std::size_t N>
StridedRows<N> broadcast_rows(const Shape& out, const std::array<const Shape*, N>& operands) {
  std::array<std::vector<std::int64_t>, N> strides;
  for (std::size_t k = 0; k < N; ++k) strides[k] = broadcast_strides(*operands[k], out);
  return StridedRows<N>(out, strides);
}

// The rows of a contiguous tensor around one axis: element k of line (o, i) is at o * size * inner + i + k * inner.
struct AxisLines {
  std::int64_t outer = 1, size = 1, inner = 1;

  AxisLines(const Shape& shape, std::int64_t axis, const char* who) {
    if (shape.empty()) return;  // a scalar is one line of one element
    axis = normalize_axis(axis, shape, who);
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(shape.size()); ++i) {
      (i < axis ? outer : i > axis ? inner : size) *= shape[i];
    }
  }

  // Calls line(number, base): element k is at base + k * inner.
  template <class F>
  void for_each(F&& line) const {
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t i = 0; i < inner; ++i) line(o * inner + i, o * size * inner + i);
    }
  }
};

}  // namespace aspen
