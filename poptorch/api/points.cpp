#include "poptorch/api/points.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace poptorch {
namespace {

double squared_distance(const Points& a, std::int64_t row_of_a, const Points& b, std::int64_t row_of_b) {
  const float* first = a.data + row_of_a * a.width;
  const float* second = b.data + row_of_b * b.width;
  double sum = 0;
  for (std::int64_t i = 0; i < a.width; ++i) {
    const double difference = static_cast<double>(first[i]) - second[i];
    sum += difference * difference;
  }
  return sum;
}

}  // namespace

std::int64_t sample_count(std::int64_t length, double ratio) {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(length) * ratio));
}

std::vector<std::int32_t> farthest_points(const Points& points, std::int64_t begin, std::int64_t end,
                                          std::int64_t start, std::int64_t count) {
  std::vector<std::int32_t> chosen;
  // Of each point, to the nearest that was chosen.
  std::vector<double> distances(static_cast<std::size_t>(end - begin), std::numeric_limits<double>::infinity());
  for (std::int64_t next = start; static_cast<std::int64_t>(chosen.size()) < count;) {
    chosen.push_back(static_cast<std::int32_t>(next));
    for (std::int64_t row = begin; row < end; ++row) {
      double& distance = distances[static_cast<std::size_t>(row - begin)];
      distance = std::min(distance, squared_distance(points, row, points, next));
    }
    next = begin + (std::max_element(distances.begin(), distances.end()) - distances.begin());
  }
  return chosen;
}

std::int32_t nearest_point(const Points& points, std::int64_t begin, std::int64_t end, const Points& others,
                           std::int64_t row) {
  std::int64_t best = begin;
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t candidate = begin; candidate < end; ++candidate) {
    const double distance = squared_distance(points, candidate, others, row);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return static_cast<std::int32_t>(best);
}

}  // namespace poptorch
