#include "aspen/ops/linalg/factorize.ref.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace aspen {
namespace {

constexpr int kSweeps = 60;  // Jacobi's rotations converge quadratically: ten are many

void swap_columns(double* a, std::int64_t m, std::int64_t n, std::int64_t i, std::int64_t j) {
  for (std::int64_t row = 0; row < m; ++row) std::swap(a[row * n + i], a[row * n + j]);
}

// Columns p and q of a (m, n) are turned by an angle.
void rotate_columns(double* a, std::int64_t m, std::int64_t n, std::int64_t p, std::int64_t q, double cosine,
                    double sine) {
  for (std::int64_t row = 0; row < m; ++row) {
    double x = a[row * n + p], y = a[row * n + q];
    a[row * n + p] = cosine * x - sine * y;
    a[row * n + q] = sine * x + cosine * y;
  }
}

void set_identity(double* a, std::int64_t n) {
  std::fill(a, a + n * n, 0.0);
  for (std::int64_t i = 0; i < n; ++i) a[i * n + i] = 1;
}

// The smaller of the two turns that make `between` vanish, given half the difference over it.
std::pair<double, double> rotation(double ratio) {
  double tangent = std::copysign(1.0, ratio) / (std::fabs(ratio) + std::hypot(1.0, ratio));
  double cosine = 1 / std::hypot(1.0, tangent);
  return {cosine, tangent * cosine};
}

double product(const double* a, std::int64_t m, std::int64_t n, std::int64_t i, std::int64_t j) {
  double sum = 0;
  for (std::int64_t row = 0; row < m; ++row) sum += a[row * n + i] * a[row * n + j];
  return sum;
}

// A column of length 1, orthogonal to those before it: what is left of the unit vector that has most left.
void complete_column(double* a, std::int64_t m, std::int64_t n, std::int64_t column) {
  std::int64_t best = 0;
  double most = -1;
  for (std::int64_t offset = 0; offset < m; ++offset) {
    std::int64_t unit = (column + offset) % m;
    double left = 1;
    for (std::int64_t j = 0; j < column; ++j) left -= a[unit * n + j] * a[unit * n + j];
    if (left > most + 1e-12) {
      most = left;
      best = unit;
    }
  }
  for (std::int64_t row = 0; row < m; ++row) a[row * n + column] = row == best ? 1 : 0;
  for (int twice = 0; twice < 2; ++twice) {  // once leaves rounding errors
    for (std::int64_t j = 0; j < column; ++j) {
      double share = product(a, m, n, j, column);
      for (std::int64_t row = 0; row < m; ++row) a[row * n + column] -= share * a[row * n + j];
    }
  }
  double length = std::sqrt(product(a, m, n, column, column));
  for (std::int64_t row = 0; row < m; ++row) a[row * n + column] /= length;
}

}  // namespace

std::int32_t cholesky_factor(double* a, std::int64_t n) {
  std::int32_t info = 0;
  for (std::int64_t j = 0; j < n && info == 0; ++j) {
    for (std::int64_t i = j; i < n; ++i) {
      double sum = a[i * n + j];
      for (std::int64_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      if (i == j && !(sum > 0)) info = static_cast<std::int32_t>(j + 1);
      a[i * n + j] = i == j ? std::sqrt(sum) : sum / a[j * n + j];
    }
  }
  for (std::int64_t i = 0; i < n; ++i) std::fill(a + i * n + i + 1, a + (i + 1) * n, 0.0);
  return info;
}

std::int32_t lu_factor(double* a, std::int64_t m, std::int64_t n, std::int32_t* pivots) {
  std::int32_t info = 0;
  for (std::int64_t k = 0; k < std::min(m, n); ++k) {
    std::int64_t pivot = k;
    for (std::int64_t i = k + 1; i < m; ++i) {
      if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) pivot = i;
    }
    pivots[k] = static_cast<std::int32_t>(pivot + 1);
    if (pivot != k) std::swap_ranges(a + k * n, a + (k + 1) * n, a + pivot * n);
    if (a[k * n + k] == 0) {
      if (info == 0) info = static_cast<std::int32_t>(k + 1);
      continue;
    }
    for (std::int64_t i = k + 1; i < m; ++i) {
      double factor = a[i * n + k] /= a[k * n + k];
      for (std::int64_t j = k + 1; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return info;
}

void householder_factor(double* a, std::int64_t m, std::int64_t n, double* tau) {
  for (std::int64_t k = 0; k < std::min(m, n); ++k) {
    double rest = 0;
    for (std::int64_t i = k + 1; i < m; ++i) rest = std::hypot(rest, a[i * n + k]);
    if (rest == 0) {
      tau[k] = 0;
      continue;
    }
    double alpha = a[k * n + k], beta = -std::copysign(std::hypot(alpha, rest), alpha);
    tau[k] = (beta - alpha) / beta;
    for (std::int64_t i = k + 1; i < m; ++i) a[i * n + k] /= alpha - beta;
    a[k * n + k] = beta;
    for (std::int64_t j = k + 1; j < n; ++j) {
      double sum = a[k * n + j];
      for (std::int64_t i = k + 1; i < m; ++i) sum += a[i * n + k] * a[i * n + j];
      a[k * n + j] -= tau[k] * sum;
      for (std::int64_t i = k + 1; i < m; ++i) a[i * n + j] -= tau[k] * sum * a[i * n + k];
    }
  }
}

void eigen_factor(double* a, std::int64_t n, double* values, double* vectors) {
  set_identity(vectors, n);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool done = true;
    for (std::int64_t p = 0; p < n; ++p) {
      for (std::int64_t q = p + 1; q < n; ++q) {
        double between = a[p * n + q];
        if (std::fabs(between) <= 1e-17 * std::sqrt(std::fabs(a[p * n + p] * a[q * n + q])) + 1e-300) continue;
        done = false;
        auto [cosine, sine] = rotation((a[q * n + q] - a[p * n + p]) / (2 * between));
        rotate_columns(a, n, n, p, q, cosine, sine);
        for (std::int64_t k = 0; k < n; ++k) {
          double x = a[p * n + k], y = a[q * n + k];
          a[p * n + k] = cosine * x - sine * y;
          a[q * n + k] = sine * x + cosine * y;
        }
        a[p * n + q] = a[q * n + p] = 0;
        rotate_columns(vectors, n, n, p, q, cosine, sine);
      }
    }
    if (done) break;
  }
  for (std::int64_t i = 0; i < n; ++i) values[i] = a[i * n + i];
  for (std::int64_t i = 0; i + 1 < n; ++i) {
    std::int64_t least = std::min_element(values + i, values + n) - values;
    if (least == i) continue;
    std::swap(values[i], values[least]);
    swap_columns(vectors, n, n, i, least);
  }
}

void singular_factor(double* a, std::int64_t m, std::int64_t n, double* s, double* v) {
  set_identity(v, n);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool done = true;
    for (std::int64_t p = 0; p < n; ++p) {
      for (std::int64_t q = p + 1; q < n; ++q) {
        double x = product(a, m, n, p, p), y = product(a, m, n, q, q), between = product(a, m, n, p, q);
        if (std::fabs(between) <= 1e-15 * std::sqrt(x * y) + 1e-300) continue;
        done = false;
        auto [cosine, sine] = rotation((y - x) / (2 * between));
        rotate_columns(a, m, n, p, q, cosine, sine);
        rotate_columns(v, n, n, p, q, cosine, sine);
      }
    }
    if (done) break;
  }
  for (std::int64_t j = 0; j < n; ++j) s[j] = std::sqrt(product(a, m, n, j, j));
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t largest = std::max_element(s + i, s + n) - s;
    if (largest == i) continue;
    std::swap(s[i], s[largest]);
    swap_columns(a, m, n, i, largest);
    swap_columns(v, n, n, i, largest);
  }
  // What is left of a column that vanishes is rounding, and points nowhere.
  for (std::int64_t j = 0; j < n; ++j) {
    if (s[j] > 1e-15 * s[0]) {
      for (std::int64_t row = 0; row < m; ++row) a[row * n + j] /= s[j];
    } else {
      complete_column(a, m, n, j);
    }
  }
}

}  // namespace aspen
