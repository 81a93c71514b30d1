#include "aspen/ops/special/special_functions.ref.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "aspen/backends/api/special_math.h"

namespace aspen {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kEpsilon = 1e-17;

// From here on the asymptotic series reach full precision.
constexpr double kFar = 30;

// 1 -+ (m - 1) / (8 x) + (m - 1) (m - 9) / (2! (8 x)^2) -+ ..., m = 4 order^2 (Abramowitz and Stegun 9.7.1, 9.7.2)
double far_series(int order, double x, double sign) {
  double m = 4.0 * order * order, term = 1, total = 1;
  for (int k = 1; k < 40 && std::fabs(term) > kEpsilon; ++k) {
    term *= sign * (m - (2.0 * k - 1) * (2.0 * k - 1)) / (8.0 * k * x);
    total += term;
  }
  return total;
}

}  // namespace

// The power series has positive terms only, so it loses nothing.
double bessel_ie(int order, double x) {
  double size = std::fabs(x), sign = order == 1 && x < 0 ? -1 : 1;
  if (std::isinf(size)) return 0;
  if (size > kFar) return sign * far_series(order, size, -1) / std::sqrt(2 * kPi * size);
  double quarter = size * size / 4, term = order == 0 ? 1 : size / 2, total = term;
  for (int k = 1; term > kEpsilon * total; ++k) {
    term *= quarter / (static_cast<double>(k) * (k + order));
    total += term;
  }
  return sign * total * std::exp(-size);
}

double bessel_ke(int order, double x) {
  if (std::isnan(x) || x < 0) return kNan;
  if (x == 0) return kInfinity;
  if (std::isinf(x)) return 0;
  if (x > kFar) return far_series(order, x, 1) * std::sqrt(kPi / (2 * x));
  return std::cyl_bessel_k(static_cast<double>(order), x) * std::exp(x);
}

// Through Bessel functions of order 1/3 (Abramowitz and Stegun 10.4.14, 10.4.15).
double airy_ai(double x) {
  if (!std::isfinite(x)) return kNan;
  if (x == 0) return 0.355028053887817239;
  if (x > 103.892) return 0;
  double size = std::fabs(x), z = 2.0 / 3 * size * std::sqrt(size), third = 1.0 / 3;
  if (x > 0) return std::sqrt(size / 3) / kPi * std::cyl_bessel_k(third, z);
  double j = std::cyl_bessel_j(third, z), y = std::cyl_neumann(third, z);
  double j_negative = std::cos(third * kPi) * j - std::sin(third * kPi) * y;
  return std::sqrt(size) / 3 * (j + j_negative);
}

double erfcx(double x) {
  if (x < 25) return std::exp(x * x) * std::erfc(x);
  double s = 1 / (2 * x * x);
  return std::numbers::inv_sqrtpi / x * (1 - s * (1 - 3 * s * (1 - 5 * s)));
}

double ndtri(double p) {
  if (p == 0) return -kInfinity;
  if (p == 1) return kInfinity;
  return std::numbers::sqrt2 * erfinv(2 * p - 1);
}

// Euler-Maclaurin summation, as in the Cephes library.
double hurwitz_zeta(double s, double q) {
  static constexpr double kBernoulli[] = {12.0,
                                          -720.0,
                                          30240.0,
                                          -1209600.0,
                                          47900160.0,
                                          -1.8924375803183791606e9,
                                          7.47242496e10,
                                          -2.950130727918164224e12,
                                          1.1646782814350067249e14,
                                          -4.5979787224074726105e15,
                                          1.8152105401943546773e17,
                                          -7.1661652561756670113e18};
  if (s == 1) return kInfinity;
  if (std::isnan(s) || s < 1) return kNan;
  if (q <= 0) {
    if (q == std::floor(q)) return kInfinity;
    if (s != std::floor(s)) return kNan;  // q^-s is not real
  }
  double total = std::pow(q, -s), a = q, power = 0;
  for (int i = 0; i < 9 || a <= 9; ++i) {
    a += 1;
    power = std::pow(a, -s);
    total += power;
    if (std::fabs(power) < kEpsilon * std::fabs(total)) return total;
  }
  total += power * a / (s - 1) - power / 2;
  double factor = 1, k = 0;
  for (double number : kBernoulli) {
    factor *= s + k;
    power /= a;
    double term = factor * power / number;
    total += term;
    if (std::fabs(term) < kEpsilon * std::fabs(total)) return total;
    k += 1;
    factor *= s + k;
    power /= a;
    k += 1;
  }
  return total;
}

namespace {

// Where both are plain numbers; else `special` holds the result.
bool is_plain(double a, double x, bool lower, double& special) {
  special = kNan;
  if (std::isnan(a) || std::isnan(x) || a < 0 || x < 0) return false;
  double none = lower ? 0 : 1, all = lower ? 1 : 0;
  if (a == 0) {
    special = x > 0 ? all : kNan;
  } else if (x == 0) {
    special = none;
  } else if (std::isinf(a)) {
    special = std::isinf(x) ? kNan : none;
  } else if (std::isinf(x)) {
    special = all;
  } else {
    return true;
  }
  return false;
}

// x^a e^-x / gamma(a)
double gamma_factor(double a, double x) { return std::exp(a * std::log(x) - x - log_gamma(a)); }

double lower_by_series(double a, double x) {
  double term = 1 / a, total = term;
  for (double k = a + 1; term > kEpsilon * total; k += 1) {
    term *= x / k;
    total += term;
  }
  return total * gamma_factor(a, x);
}

// Lentz's method (Numerical Recipes, 6.2).
double upper_by_fraction(double a, double x) {
  constexpr double kTiny = 1e-300;
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / b, h = d;
  for (int i = 1; i < 100000; ++i) {
    double an = -i * (i - a);
    b += 2;
    d = an * d + b;
    if (std::fabs(d) < kTiny) d = kTiny;
    c = b + an / c;
    if (std::fabs(c) < kTiny) c = kTiny;
    d = 1 / d;
    h *= d * c;
    if (std::fabs(d * c - 1) < 1e-16) break;
  }
  return h * gamma_factor(a, x);
}

}  // namespace

double lower_gamma(double a, double x) {
  double special = 0;
  if (!is_plain(a, x, true, special)) return special;
  return x < a + 1 ? lower_by_series(a, x) : 1 - upper_by_fraction(a, x);
}

double upper_gamma(double a, double x) {
  double special = 0;
  if (!is_plain(a, x, false, special)) return special;
  return x < a + 1 ? 1 - lower_by_series(a, x) : upper_by_fraction(a, x);
}

namespace {

// p(k + 1) = next(k, p(k), p(k - 1)), from p(0) = 1 and p(1).
template <class Next>
double by_recurrence(std::int64_t n, double first, Next next) {
  if (n < 0 || n == 0) return n == 0 ? 1 : 0;
  double before = 1, now = first;
  for (std::int64_t k = 1; k < n; ++k) {
    double after = next(static_cast<double>(k), now, before);
    before = now;
    now = after;
  }
  return now;
}

// All kinds of Chebyshev polynomials share the recurrence.
double chebyshev(double x, std::int64_t n, double first) {
  return by_recurrence(n, first, [x](double, double now, double before) { return 2 * x * now - before; });
}

}  // namespace

double chebyshev_t(double x, std::int64_t n) {
  if (n > 6 && std::fabs(x) < 1) return std::cos(static_cast<double>(n) * std::acos(x));
  return chebyshev(x, n, x);
}

double chebyshev_u(double x, std::int64_t n) {
  if (n > 8 && std::fabs(x) < 1) {
    double angle = std::acos(x);
    return std::sin(static_cast<double>(n + 1) * angle) / std::sin(angle);
  }
  return chebyshev(x, n, 2 * x);
}

double chebyshev_v(double x, std::int64_t n) {
  if (n > 8 && std::fabs(x) < 1) {
    double angle = std::acos(x);
    return std::cos((static_cast<double>(n) + 0.5) * angle) / std::cos(angle / 2);
  }
  return chebyshev(x, n, 2 * x - 1);
}

double chebyshev_w(double x, std::int64_t n) {
  if (n > 8 && std::fabs(x) < 1) {
    double angle = std::acos(x);
    return std::sin((static_cast<double>(n) + 0.5) * angle) / std::sin(angle / 2);
  }
  return chebyshev(x, n, 2 * x + 1);
}

double hermite_h(double x, std::int64_t n) {
  return by_recurrence(n, 2 * x, [x](double k, double now, double before) { return 2 * x * now - 2 * k * before; });
}

double hermite_he(double x, std::int64_t n) {
  return by_recurrence(n, x, [x](double k, double now, double before) { return x * now - k * before; });
}

double laguerre_l(double x, std::int64_t n) {
  return by_recurrence(
      n, 1 - x, [x](double k, double now, double before) { return ((2 * k + 1 - x) * now - k * before) / (k + 1); });
}

double legendre_p(double x, std::int64_t n) {
  return by_recurrence(
      n, x, [x](double k, double now, double before) { return ((2 * k + 1) * x * now - k * before) / (k + 1); });
}

}  // namespace aspen
