// Shape and TensorType: what is known of a tensor before a program runs. Shapes are static.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "aspen/base/dtype.h"

namespace aspen {

// Extents, slowest dimension first; tensors are always contiguous in this order.
using Shape = std::vector<std::int64_t>;

std::int64_t numel(const Shape& shape);
std::vector<std::int64_t> contiguous_strides(const Shape& shape);
std::string to_string(const Shape& shape);  // "[8, 16]"

// Maps axis in [-rank, rank) to [0, rank); otherwise a UserError naming `who`, the axis and the shape.
std::int64_t normalize_axis(std::int64_t axis, const Shape& shape, const char* who);

// Numpy broadcasting of two shapes; UserError naming `who` and both shapes when they do not fit.
Shape broadcast_shapes(const Shape& a, const Shape& b, const char* who);

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  std::int64_t numel() const { return aspen::numel(shape); }
  std::int64_t rank() const { return static_cast<std::int64_t>(shape.size()); }
  std::size_t bytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype); }
  bool operator==(const TensorType&) const = default;
};

std::string to_string(const TensorType& type);  // "f32[8, 16]"

}  // namespace aspen
