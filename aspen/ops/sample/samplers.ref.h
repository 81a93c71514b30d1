// One variate at a time, in double precision, from the words of one element. By inversion or by rejection; each method
// names its paper. Used by the kernels of this folder.
#pragma once

#include <cmath>
#include <limits>
#include <numbers>

#include "aspen/backends/api/special_math.h"
#include "aspen/ops/random/philox.h"

namespace aspen {

// The random words of element i among n: block i, then i + n, i + 2 n, ... Rejection takes as many as it needs, and no
// two elements ever share one.
class ElementWords {
 public:
  ElementWords(const RandomStream& stream, std::int64_t element, std::int64_t count)
      : stream_(&stream), next_(element), stride_(count) {}

  PhiloxBlock next() {
    PhiloxBlock block = stream_->block(next_);
    next_ += stride_;
    return block;
  }

 private:
  const RandomStream* stream_;
  std::int64_t next_, stride_;
};

// (0, 1), both ends left out.
inline double open_unit(std::uint32_t word) { return (word + 0.5) * 0x1p-32; }
inline double open_unit(std::uint32_t high, std::uint32_t low) {
  std::uint64_t bits = std::uint64_t{high} << 20 | low >> 12;
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

// Logarithm of a gamma variate, which does not underflow for small shapes. Marsaglia and Tsang, "A simple method for
// generating gamma variables" (2000); below 1, a variate of shape alpha + 1 times u^(1 / alpha).
inline double log_gamma_variate(double alpha, ElementWords words) {
  bool is_small = alpha < 1;
  double d = alpha + (is_small ? 1 : 0) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    PhiloxBlock word = words.next();
    double x = std::sqrt(-2 * std::log(open_unit(word[0]))) * std::cos(2 * std::numbers::pi * open_unit(word[1]));
    double y = 1 + c * x;
    if (y <= 0) continue;
    double log_v = 3 * std::log(y);
    if (std::log(open_unit(word[2])) >= x * x / 2 + d * (1 - y * y * y + log_v)) continue;
    return std::log(d) + log_v + (is_small ? std::log(open_unit(word[3])) / alpha : 0);
  }
}

// Small rates by inversion; others by Hoermann, "The transformed rejection method for generating Poisson random
// variables" (1993), algorithm PTRS.
inline double poisson_variate(double rate, ElementWords words) {
  if (rate < 10) {
    PhiloxBlock word = words.next();
    double u = open_unit(word[0], word[1]), p = std::exp(-rate), k = 0;
    for (double sum = p; u > sum && p > 0; sum += p) p *= rate / ++k;
    return k;
  }
  double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), accepted = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    PhiloxBlock word = words.next();
    double u = open_unit(word[0], word[1]) - 0.5, v = open_unit(word[2]), edge = 0.5 - std::fabs(u);
    double k = std::floor((2 * a / edge + b) * u + rate + 0.43);
    if (edge >= 0.07 && v <= accepted) return k;
    if (k < 0 || (edge < 0.013 && v > edge)) continue;
    double height = std::log(v * inverse_alpha / (a / (edge * edge) + b));
    if (height <= k * std::log(rate) - rate - log_gamma(k + 1)) return k;
  }
}

// For p <= 1/2. Few expected successes by inversion; others by Hoermann, "The generation of binomial random variates"
// (1993), algorithm BTRS.
inline double binomial_variate_low(double n, double p, ElementWords words) {
  double odds = p / (1 - p);
  if (n * p < 10) {
    PhiloxBlock word = words.next();
    double u = open_unit(word[0], word[1]), r = std::exp(n * std::log1p(-p)), k = 0;
    for (double sum = r; u > sum && k < n && r > 0; sum += r) {
      r *= odds * (n - k) / (k + 1);
      ++k;
    }
    return k;
  }
  double deviation = std::sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p;
  double center = n * p + 0.5, accepted = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * deviation;
  double mode = std::floor((n + 1) * p), peak = log_gamma(mode + 1) + log_gamma(n - mode + 1);
  for (;;) {
    PhiloxBlock word = words.next();
    double u = open_unit(word[0], word[1]) - 0.5, v = open_unit(word[2]), edge = 0.5 - std::fabs(u);
    double k = std::floor((2 * a / edge + b) * u + center);
    if (k < 0 || k > n) continue;
    if (edge >= 0.07 && v <= accepted) return k;
    double height = std::log(v * alpha / (a / (edge * edge) + b));
    double likelihood = peak - log_gamma(k + 1) - log_gamma(n - k + 1) + (k - mode) * std::log(odds);
    if (height <= likelihood) return k;
  }
}

// The cases at the ends as PyTorch has them.
inline double binomial_variate(double count, double p, ElementWords words) {
  if (std::isnan(count) || std::isnan(p)) return std::numeric_limits<double>::quiet_NaN();
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1) return count;
  return p <= 0.5 ? binomial_variate_low(count, p, words) : count - binomial_variate_low(count, 1 - p, words);
}

}  // namespace aspen
