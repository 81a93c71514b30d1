// How kernels of nll and cross_entropy read their targets; shared by all backends so that they mean and say the same.
#pragma once

#include "aspen/base/error.h"
#include "aspen/ops/index/check_index.h"
#include "aspen/ops/nll/nll.h"

namespace aspen {

// x: (N, C, inner); target: (N, inner).
struct NllLayout {
  std::int64_t batch, classes, inner;

  explicit NllLayout(const Shape& x) : batch(x[0]), classes(x[1]), inner(1) {
    for (std::size_t i = 2; i < x.size(); ++i) inner *= x[i];
  }
  std::int64_t targets() const { return batch * inner; }
};

// For a target that is neither a class nor ignored, at flat position `at`.
[[noreturn]] inline void fail_target(const std::string& op, const NllLayout& layout, std::int64_t at,
                                     std::int64_t target, std::int64_t ignored) {
  Shape shape{layout.batch};
  if (layout.inner > 1) shape.push_back(layout.inner);
  throw UserError("[{}] target {}{} is out of range for {} classes; expected 0 <= target < {}, or ignore_index {}.", op,
                  target, sample_and_position(shape, at), layout.classes, layout.classes, ignored);
}

}  // namespace aspen
