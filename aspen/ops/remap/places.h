// The runs of remap as lists of places and back; shared by its definition, its kernels and its callers.
#pragma once

#include "aspen/base/tensor_type.h"
#include "aspen/ops/remap/remap.h"

namespace aspen {

// Which element of x stands at every place along an axis; -1: zero.
using AxisPlaces = std::vector<std::int64_t>;

// One list per axis of x. Axes without runs keep their elements.
inline std::vector<AxisPlaces> remap_places(const RemapAttrs& attrs, const Shape& x) {
  std::vector<AxisPlaces> places(x.size());
  std::vector<bool> has_runs(x.size(), false);
  for (std::size_t r = 0; r < attrs.runs.size(); r += 4) {
    auto axis = static_cast<std::size_t>(attrs.runs[r]);
    std::int64_t first = attrs.runs[r + 1], step = attrs.runs[r + 2], count = attrs.runs[r + 3];
    for (std::int64_t k = 0; k < count; ++k) places[axis].push_back(first < 0 ? -1 : first + k * step);
    has_runs[axis] = true;
  }
  for (std::size_t a = 0; a < x.size(); ++a) {
    for (std::int64_t k = 0; !has_runs[a] && k < x[a]; ++k) places[a].push_back(k);
  }
  return places;
}

// Adds the runs of one axis.
inline void add_runs(RemapAttrs& attrs, std::int64_t axis, const AxisPlaces& places) {
  const std::size_t size = places.size();
  if (size == 0) attrs.runs.insert(attrs.runs.end(), {axis, 0, 1, 0});
  for (std::size_t i = 0; i < size;) {
    std::size_t end = i + 1;
    bool zero = places[i] < 0;
    std::int64_t step = end < size && !zero && places[end] >= 0 ? places[end] - places[i] : zero ? 0 : 1;
    auto continues = [&] { return zero ? places[end] < 0 : places[end] >= 0 && places[end] - places[end - 1] == step; };
    while (end < size && continues()) ++end;
    attrs.runs.insert(attrs.runs.end(), {axis, zero ? -1 : places[i], step, static_cast<std::int64_t>(end - i)});
    i = end;
  }
}

}  // namespace aspen
