// Reading the settings of a parameter group; shared by the kernels of every backend, so that all of them compute with
// the very same numbers.
#pragma once

#include <charconv>

#include "aspen/ops/optimizer/optimizer.h"

namespace aspen {

// Settings travel as float, but 1 - beta2 of a beta2 of 0.999f is off by 1e-5. The shortest decimal that rounds to the
// float is what the user wrote, and its double is what torch computes with.
inline double as_written(float value) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof(text), value);
  double exact = value;
  std::from_chars(text, end.ptr, exact);
  return exact;
}

class Settings {
 public:
  explicit Settings(const float* values) : values_(values) {}
  double operator[](Setting which) const { return as_written(values_[which]); }

 private:
  const float* values_;
};

}  // namespace aspen
