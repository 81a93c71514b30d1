// Which elements of an axis an output of resize is made of, and how much of each: shared by the kernels of all
// backends. Coordinates are float, as in ATen, so that both round to the same element.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "aspen/ops/resize/resize.h"

namespace aspen {

struct Tap {
  std::int64_t index;
  float weight;
};

// The taps of output positions 0, 1, ... one after the other, equally many for each.
struct AxisTaps {
  std::int64_t in = 1;
  std::size_t per_output = 1;
  std::vector<Tap> taps{{0, 1.0f}};
  std::size_t num_outputs() const { return taps.size() / per_output; }
};

// Keys 1981, with the parameter A = -0.75.
inline void add_cubic_taps(std::vector<Tap>& taps, float position, std::int64_t in) {
  constexpr float kA = -0.75f;
  auto near = [](float d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };         // d <= 1
  auto far = [](float d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };  // 1 < d < 2
  auto base = static_cast<std::int64_t>(std::floor(position));
  float t = position - static_cast<float>(base);
  const float weights[] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
  for (std::int64_t k = 0; k < 4; ++k) {
    taps.push_back({std::clamp<std::int64_t>(base + k - 1, 0, in - 1), weights[k]});
  }
}

inline AxisTaps axis_taps(const ResizeAttrs& attrs, std::size_t axis, std::int64_t in) {
  AxisTaps result{in, 1, {}};
  auto step = static_cast<float>(attrs.scales[axis]);
  auto at_most_last = [&](float position) { return std::min(static_cast<std::int64_t>(std::floor(position)), in - 1); };
  for (std::int64_t i = 0; i < attrs.size[axis]; ++i) {
    if (attrs.mode == "nearest") {
      result.taps.push_back({at_most_last(static_cast<float>(i) * step), 1});
      continue;
    }
    if (attrs.mode == "nearest_exact") {
      result.taps.push_back({at_most_last((static_cast<float>(i) + 0.5f) * step), 1});
      continue;
    }
    auto place = static_cast<float>(i);
    float position = attrs.align_corners ? step * place : step * (place + 0.5f) - 0.5f;
    if (attrs.mode == "cubic") {
      result.per_output = 4;
      add_cubic_taps(result.taps, position, in);
      continue;
    }
    result.per_output = 2;
    // An axis that keeps its extent is copied, whatever step was asked for.
    if (attrs.size[axis] == in) position = place;
    position = std::max(position, 0.0f);
    std::int64_t first = at_most_last(position);
    float second_weight = std::min(position - static_cast<float>(first), 1.0f);
    result.taps.push_back({first, 1 - second_weight});
    result.taps.push_back({std::min(first + 1, in - 1), second_weight});
  }
  return result;
}

}  // namespace aspen
