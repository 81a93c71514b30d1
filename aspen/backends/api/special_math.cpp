#include "aspen/backends/api/special_math.h"

#include <math.h>  // lgamma_r

#include <cmath>
#include <limits>
#include <numbers>

namespace aspen {
namespace {

constexpr double kPi = std::numbers::pi;

// Winitzki's closed form, good to 2e-3: a start for the iteration.
double rough_erfinv(double y) {
  constexpr double kA = 0.147;
  double log_term = std::log1p(-y * y);
  double half = 2 / (kPi * kA) + log_term / 2;
  return std::copysign(std::sqrt(std::sqrt(half * half - log_term / kA) - half), y);
}

}  // namespace

double erfinv(double y) {
  if (std::fabs(y) == 1) return std::copysign(std::numeric_limits<double>::infinity(), y);
  if (!(std::fabs(y) < 1)) return std::numeric_limits<double>::quiet_NaN();
  double x = std::fabs(rough_erfinv(y)), target = std::fabs(y);
  // Halley's method on erf(x) - y; near 1 the difference is taken of the complements, which keep their digits.
  for (int i = 0; i < 4; ++i) {
    double error = target > 0.5 ? (1 - target) - std::erfc(x) : std::erf(x) - target;
    double newton = error / (2 * std::numbers::inv_sqrtpi * std::exp(-x * x));
    x -= newton / (1 + x * newton);
  }
  return std::copysign(x, y);
}

// Reflection for negative x, recurrence up to 12, then the asymptotic series (Abramowitz and Stegun 6.3).
double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (x < 0) {
    if (x == std::trunc(x)) return std::numeric_limits<double>::quiet_NaN();
    double fraction = x - std::trunc(x);  // tan of the fraction: exact for large x
    return digamma(1 - x) - kPi / std::tan(kPi * fraction);
  }
  double result = 0;
  while (x < 12) {
    result -= 1 / x;
    x += 1;
  }
  double inverse = 1 / (x * x);
  double series =
      inverse *
      (1.0 / 12 -
       inverse * (1.0 / 120 -
                  inverse * (1.0 / 252 - inverse * (1.0 / 240 - inverse * (1.0 / 132 - inverse * (691.0 / 32760))))));
  return result + std::log(x) - 0.5 / x - series;
}

// As digamma (Abramowitz and Stegun 6.4).
double trigamma(double x) {
  if (x <= 0 && x == std::trunc(x)) return std::numeric_limits<double>::infinity();
  if (x < 0) {
    double sine = std::sin(kPi * (x - std::trunc(x)));
    return kPi * kPi / (sine * sine) - trigamma(1 - x);
  }
  double result = 0;
  while (x < 12) {
    result += 1 / (x * x);
    x += 1;
  }
  double inverse = 1 / (x * x);
  double series =
      inverse * (1.0 / 6 - inverse * (1.0 / 30 - inverse * (1.0 / 42 - inverse * (1.0 / 30 - inverse * (5.0 / 66)))));
  return result + (1 + 0.5 / x + series) / x;
}

double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

float log_gamma(float x) {
  int sign = 0;
  return ::lgammaf_r(x, &sign);
}

}  // namespace aspen
