#include "tests/conformance/tolerances.h"

#include <cmath>

namespace aspen::testing {

const Tolerance& tolerance_of(DType type) {
  for (const Tolerance& tolerance : kTolerances) {
    if (tolerance.dtype == type) return tolerance;
  }
  return kTolerances[0];
}

bool close(double actual, double expected, const Tolerance& tolerance) {
  if (std::isnan(actual) || std::isnan(expected)) return std::isnan(actual) && std::isnan(expected);
  if (actual == expected) return true;
  return std::fabs(actual - expected) <= tolerance.absolute + tolerance.relative * std::fabs(expected);
}

}  // namespace aspen::testing
