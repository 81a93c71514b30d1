// Points in space: what fps and nearest compute. Points are rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace poptorch {

struct Points {
  const float* data;  // rows x width
  std::int64_t rows, width;
};

// How many points of a segment are sampled.
std::int64_t sample_count(std::int64_t length, double ratio);

// Row numbers of `count` points of [begin, end): the first is `start`, each further one is the farthest from all before
// it.
std::vector<std::int32_t> farthest_points(const Points& points, std::int64_t begin, std::int64_t end,
                                          std::int64_t start, std::int64_t count);

// The row of [begin, end) of `points` that is nearest to row `row` of `others`.
std::int32_t nearest_point(const Points& points, std::int64_t begin, std::int64_t end, const Points& others,
                           std::int64_t row);

}  // namespace poptorch
