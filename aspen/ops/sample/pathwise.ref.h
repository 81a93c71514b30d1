// Pathwise gradients of gamma and beta variates, exact to about 1e-5. Figurnov, Mohamed and Mnih, "Implicit
// reparameterization gradients" (2018): a variate z of density f moves with its parameter a by
//   dz/da = -(dF/da)(z) / f(z) = integral over (z, end) of s f / f(z) = -integral over (start, z) of s f / f(z),
// s = d log f / da, which grows with its argument and has mean zero: on one side of z it keeps its sign, and that side
// is integrated. In log z (gamma) and log(x / (1 - x)) (beta) the densities are smooth and log-concave.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "aspen/backends/api/special_math.h"

namespace aspen::pathwise {

// Gauss and Legendre, 16 points on (-1, 1): one half of them.
inline constexpr std::array<double, 8> kNodes = {0.0950125098376374, 0.2816035507792589, 0.4580167776572274,
                                                 0.6178762444026438, 0.7554044083550030, 0.8656312023878318,
                                                 0.9445750230732326, 0.9894009349916499};
inline constexpr std::array<double, 8> kWeights = {0.1894506104550685, 0.1826034150449236, 0.1691565193950025,
                                                   0.1495959888165767, 0.1246289712555339, 0.0951585116824928,
                                                   0.0622535239386479, 0.0271524594117541};

template <class F>
double integrate_panel(double low, double high, const F& f) {
  double middle = (low + high) / 2, half = (high - low) / 2, sum = 0;
  for (std::size_t i = 0; i < kNodes.size(); ++i) {
    sum += kWeights[i] * (f(middle - half * kNodes[i]) + f(middle + half * kNodes[i]));
  }
  return sum * half;
}

struct Term {
  double exponent, score;
};

// Integral of exp(exponent) score over w > 0, both of f(w). The exponent is concave and 0 at w = 0; `scale` is about
// the distance over which it falls; where that distance is long, `bend` is where its slope changes.
template <class F>
double integrate(const F& f, double scale, double bend) {
  constexpr double kNegligible = -36, kLongest = 1e12;
  double near = 0, far = 8 * scale;
  while (f(far).exponent > kNegligible && far < kLongest) far *= 2;
  for (int i = 0; i < 4; ++i) {
    double middle = (near + far) / 2;
    (f(middle).exponent > kNegligible ? near : far) = middle;
  }
  std::array<double, 5> edges = {0, far / 2, far, far, far};
  if (far > 24) {
    for (int i = 0; i < 3; ++i) edges[i + 1] = std::clamp(bend + (i - 1) * 8.0, 0.0, far);
  } else if (far > 12) {
    edges = {0, far / 4, far / 2, far * 3 / 4, far};
  }
  double sum = 0;
  for (std::size_t i = 0; i + 1 < edges.size(); ++i) {
    if (edges[i] >= edges[i + 1]) continue;
    sum += integrate_panel(edges[i], edges[i + 1], [&](double w) {
      Term term = f(w);
      return std::exp(term.exponent) * term.score;
    });
  }
  return sum;
}

// d z / d alpha of z ~ Gamma(alpha, 1). In u = log z: f ~ exp(alpha u - e^u), s = u - digamma(alpha).
inline double gamma_gradient(double alpha, double z) {
  if (std::isnan(alpha) || std::isnan(z) || alpha < 0) return std::numeric_limits<double>::quiet_NaN();
  if (z <= 0 || alpha == 0) return 0;
  double excess = std::log(z) - digamma(alpha);
  if (excess < 0) {
    auto below = [&](double w) { return Term{-alpha * w - z * std::expm1(-w), w - excess}; };
    return z * integrate(below, 1 / alpha, excess);
  }
  auto above = [&](double w) { return Term{alpha * w - z * std::expm1(w), w + excess}; };
  return z * integrate(above, 1 / (alpha + 1), std::log1p(alpha) - std::log(z));
}

// (d x / d alpha) / (1 - x) of x ~ Beta(alpha, total - alpha). In u = log(x / (1 - x)):
//   f ~ exp(alpha u - total log(1 + e^u)), s = log x - (digamma(alpha) - digamma(total))
inline double beta_gradient(double x, double alpha, double total) {
  double beta = total - alpha;
  if (std::isnan(x) || std::isnan(beta) || alpha < 0) return std::numeric_limits<double>::quiet_NaN();
  if (x <= 0 || alpha == 0 || beta <= 0) return 0;  // beta = 0: the variate is 1 and stays there
  x = std::min(x, 1.0);
  double log_x = std::log(x), u = log_x - std::log1p(-x), excess = log_x - digamma(alpha) + digamma(total);
  if (excess < 0) {
    auto below = [&](double w) {
      double shrunk = std::log1p(x * std::expm1(-w));  // log of 1 + e^(u - w) over 1 + e^u
      return Term{-alpha * w - total * shrunk, w + shrunk - excess};
    };
    return x * integrate(below, 1 / total, u);
  }
  auto above = [&](double w) {
    double grown = std::log(x + (1 - x) * std::exp(-w));  // the same of 1 + e^(u + w), less w
    return Term{-beta * w - total * grown, excess - grown};
  };
  return x * integrate(above, 1 / total, -u);
}

}  // namespace aspen::pathwise
