// Where the elements of one axis land when padded; shared by the definition of pad and its kernels.
#pragma once

#include <algorithm>

#include "aspen/ops/shape/shape.h"

namespace aspen {

// Elements begin <= k < end survive; element k lands at target(k).
struct PadRange {
  std::int64_t begin, end, step, low;
  std::int64_t count() const { return end - begin; }
  std::int64_t target(std::int64_t k) const { return k * step + low; }
};

// Extent after padding; negative when more is cropped than there is.
inline std::int64_t padded_extent(const PadAttrs& attrs, std::size_t axis, std::int64_t extent) {
  return attrs.low[axis] + attrs.high[axis] + extent + std::max<std::int64_t>(extent - 1, 0) * attrs.interior[axis];
}

inline PadRange pad_range(const PadAttrs& attrs, std::size_t axis, std::int64_t extent) {
  std::int64_t low = attrs.low[axis], step = attrs.interior[axis] + 1;
  std::int64_t padded = padded_extent(attrs, axis, extent);
  std::int64_t begin = low < 0 ? (-low + step - 1) / step : 0;             // first k with k * step + low >= 0
  std::int64_t end = padded > low ? (padded - low + step - 1) / step : 0;  // first k with k * step + low >= padded
  end = std::min(end, extent);
  return {std::min(begin, end), end, step, low};
}

}  // namespace aspen
