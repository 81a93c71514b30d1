// StridedCopy: moves elements between two layouts of one shape. The plan is made once, when a kernel is created;
// running it allocates nothing. Elements are opaque bytes, so one plan serves every element type of a size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "aspen/base/tensor_type.h"

namespace aspen {

class StridedCopy {
 public:
  // Element (i, j, ...) of `shape` is read at offset sum(i * from_strides) and written at sum(i * to_strides).
  // Strides count elements; those of the source may be zero (broadcast) or negative (reverse).
  StridedCopy(std::size_t element_size, const Shape& shape, const std::vector<std::int64_t>& from_strides,
              const std::vector<std::int64_t>& to_strides);

  // `from` and `to` point at the element (0, 0, ...); the two regions do not overlap.
  void run(const void* from, void* to) const;

 private:
  struct Axis {
    std::int64_t extent, from, to;  // strides in bytes
  };
  void run_axis(std::size_t axis, const std::byte* from, std::byte* to) const;
  void run_line(const std::byte* from, std::byte* to) const;

  std::size_t element_size_;
  bool empty_ = false;
  std::vector<Axis> axes_;  // neighbours that walk as one are merged; never empty
};

}  // namespace aspen
