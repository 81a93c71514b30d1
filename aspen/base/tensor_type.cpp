#include "aspen/base/tensor_type.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "aspen/base/error.h"

namespace aspen {

std::int64_t numel(const Shape& shape) {
  std::int64_t count = 1;
  for (auto extent : shape) count *= extent;
  return count;
}

std::vector<std::int64_t> contiguous_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::int64_t normalize_axis(std::int64_t axis, const Shape& shape, const char* who) {
  auto rank = static_cast<std::int64_t>(shape.size());
  if (axis < -rank || axis >= rank) {
    throw UserError("[{}] axis {} is out of range for an input of shape {}; expected {} <= axis < {}.", who, axis,
                    to_string(shape), -rank, rank);
  }
  return axis < 0 ? axis + rank : axis;
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* who) {
  Shape result(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      throw UserError("[{}] shapes {} and {} do not broadcast: sizes {} and {} differ and neither is 1.", who,
                      to_string(a), to_string(b), x, y);
    }
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

std::string to_string(const TensorType& type) {
  return fmt::format("{}{}", name_of(type.dtype), to_string(type.shape));
}

}  // namespace aspen
