// The check every kernel makes before it follows an index; shared by all backends so that they say the same.
#pragma once

#include <string>

#include "aspen/base/error.h"
#include "aspen/base/tensor_type.h"

namespace aspen {

inline Shape position_in(const Shape& shape, std::int64_t flat_position) {
  Shape position;
  auto strides = contiguous_strides(shape);
  for (std::size_t i = 0; i < shape.size(); ++i) position.push_back(flat_position / strides[i] % shape[i]);
  return position;
}

// " of sample 2", " of sample 2, position [2, 0]": where an element is for a user, whose samples lie along axis 0.
inline std::string sample_and_position(const Shape& shape, std::int64_t flat_position) {
  Shape position = position_in(shape, flat_position);
  if (position.empty()) return "";
  std::string text = fmt::format(" of sample {}", position[0]);
  return position.size() == 1 ? text : text + ", position " + to_string(position);
}

[[noreturn]] inline void fail_index(const std::string& op, std::int64_t index, std::int64_t flat_position,
                                    const Shape& index_shape, std::int64_t low, std::int64_t size) {
  Shape position = position_in(index_shape, flat_position);
  throw UserError("[{}] index {} at position {} is out of range for an axis of size {}; expected {} <= index < {}.", op,
                  index, to_string(position), size, low, size);
}

// The index itself if 0 <= index < size; otherwise a UserError naming op, index, its position and the size.
inline std::int64_t checked_index(std::int64_t index, std::int64_t size, const std::string& op,
                                  std::int64_t flat_position, const Shape& index_shape) {
  if (index < 0 || index >= size) [[unlikely]]
    fail_index(op, index, flat_position, index_shape, 0, size);
  return index;
}

}  // namespace aspen
