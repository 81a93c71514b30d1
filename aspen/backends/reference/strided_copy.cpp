#include "aspen/backends/reference/strided_copy.h"

#include <cstring>

namespace aspen {
namespace {

// memcpy of a known size compiles to one load and one store, whatever the alignment.
template <std::size_t kSize>
void copy_line(const std::byte* from, std::int64_t from_stride, std::byte* to, std::int64_t to_stride, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, kSize);
}

}  // namespace

StridedCopy::StridedCopy(std::size_t element_size, const Shape& shape, const std::vector<std::int64_t>& from_strides,
                         const std::vector<std::int64_t>& to_strides)
    : element_size_(element_size) {
  const auto size = static_cast<std::int64_t>(element_size);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) empty_ = true;
    if (shape[i] == 1) continue;
    Axis axis{shape[i], from_strides[i] * size, to_strides[i] * size};
    if (!axes_.empty() && axes_.back().from == axis.from * axis.extent && axes_.back().to == axis.to * axis.extent) {
      axes_.back() = {axes_.back().extent * axis.extent, axis.from, axis.to};
    } else {
      axes_.push_back(axis);
    }
  }
  if (axes_.empty()) axes_.push_back({1, size, size});
}

void StridedCopy::run(const void* from, void* to) const {
  if (!empty_) run_axis(0, static_cast<const std::byte*>(from), static_cast<std::byte*>(to));
}

void StridedCopy::run_axis(std::size_t axis, const std::byte* from, std::byte* to) const {
  if (axis + 1 == axes_.size()) return run_line(from, to);
  const Axis& a = axes_[axis];
  for (std::int64_t i = 0; i < a.extent; ++i) run_axis(axis + 1, from + i * a.from, to + i * a.to);
}

void StridedCopy::run_line(const std::byte* from, std::byte* to) const {
  const Axis& a = axes_.back();
  const auto size = static_cast<std::int64_t>(element_size_);
  if (a.from == size && a.to == size) {
    std::memcpy(to, from, static_cast<std::size_t>(a.extent) * element_size_);
    return;
  }
  switch (element_size_) {
    case 1: return copy_line<1>(from, a.from, to, a.to, a.extent);
    case 2: return copy_line<2>(from, a.from, to, a.to, a.extent);
    case 4: return copy_line<4>(from, a.from, to, a.to, a.extent);
    default: return copy_line<8>(from, a.from, to, a.to, a.extent);
  }
}

}  // namespace aspen
