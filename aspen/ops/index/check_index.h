// The check every kernel makes before it follows an index; shared by all backends so that they say the same.
#pragma once

#include <string>

#include "aspen/base/error.h"
#include "aspen/base/tensor_type.h"

namespace aspen {

[[noreturn]] inline void fail_index(const std::string& op, std::int64_t index, std::int64_t flat_position,
                                    const Shape& index_shape, std::int64_t low, std::int64_t size) {
  Shape position;
  auto strides = contiguous_strides(index_shape);
  for (std::size_t i = 0; i < index_shape.size(); ++i) position.push_back(flat_position / strides[i] % index_shape[i]);
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
