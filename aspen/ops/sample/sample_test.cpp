#include "aspen/ops/sample/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/base/error.h"
#include "aspen/ops/sample/pathwise.ref.h"
#include "tests/support/interpret.h"

namespace aspen::testing {
namespace {

using Numbers = std::vector<double>;
constexpr std::int64_t kMany = 40000;

HostTensor filled(std::int64_t n, double value, DType dtype = DType::kF32) {
  return HostTensor({dtype, {n}}, Numbers(static_cast<std::size_t>(n), value));
}

HostTensor sample(const char* op, const std::vector<HostTensor>& parameters, std::int64_t stream = 3,
                  const StepContext& step = {.seed = 42}) {
  return run_op(*make_reference_backend(), op, parameters, Attrs::of(SampleAttrs{stream}), step)[0];
}

// Mean and variance within five standard errors; the fourth central moment says how far a variance may be off.
void expect_moments(const Numbers& x, double mean, double variance, double fourth, const std::string& what) {
  double n = static_cast<double>(x.size()), found = std::accumulate(x.begin(), x.end(), 0.0) / n, spread = 0;
  for (double value : x) spread += (value - found) * (value - found) / n;
  EXPECT_NEAR(found, mean, 5 * std::sqrt(variance / n)) << what;
  // The spread is taken around the mean that was found.
  EXPECT_NEAR(spread, variance, 5 * std::sqrt((fourth - variance * variance) / n) + 25 * variance / n) << what;
}

TEST(Sample, GammaHasItsMoments) {
  for (double a : {0.1, 0.7, 1.0, 3.5, 80.0}) {
    Numbers x = sample("random_gamma", {filled(kMany, a)}).numbers();
    EXPECT_GT(*std::min_element(x.begin(), x.end()), 0);
    expect_moments(x, a, a, 3 * a * a + 6 * a, "alpha " + std::to_string(a));
  }
}

TEST(Sample, GammaOfASmallShapeStaysPositive) {
  Numbers x = sample("random_gamma", {filled(1000, 0.001)}).numbers();
  for (double value : x) ASSERT_GE(value, 1.17e-38);
}

TEST(Sample, PoissonHasItsMoments) {
  for (double rate : {0.0, 0.3, 4.0, 9.9, 10.1, 60.0, 2000.0}) {
    Numbers x = sample("random_poisson", {filled(kMany, rate)}).numbers();
    for (double value : x) ASSERT_TRUE(value >= 0 && value == std::floor(value)) << value;
    expect_moments(x, rate, rate, rate + 3 * rate * rate, "rate " + std::to_string(rate));
  }
}

TEST(Sample, BinomialHasItsMoments) {
  for (double n : {1.0, 7.0, 50.0, 1000.0}) {
    for (double p : {0.02, 0.3, 0.5, 0.9}) {
      Numbers x = sample("random_binomial", {filled(kMany, n), filled(kMany, p)}).numbers();
      for (double value : x) ASSERT_TRUE(value >= 0 && value <= n && value == std::floor(value)) << value;
      double v = n * p * (1 - p);
      expect_moments(x, n * p, v, v * (1 + 3 * (n - 2) * p * (1 - p)), fmt::format("n {} p {}", n, p));
    }
  }
}

TEST(Sample, BinomialIsExactAtTheEnds) {
  HostTensor count({DType::kF32, {4}}, {5, 5, 0, -1}), p({DType::kF32, {4}}, {0, 1, 0.5, 0.5});
  EXPECT_EQ(sample("random_binomial", {count, p}).numbers(), (Numbers{0, 5, 0, 0}));
}

TEST(Sample, DirichletAddsUpToOneAndHasItsMeans) {
  Numbers alpha, sums(3, 0);
  for (std::int64_t i = 0; i < kMany; ++i) alpha.insert(alpha.end(), {0.2, 1.0, 3.0});
  Numbers x = sample("random_dirichlet", {HostTensor({DType::kF32, {kMany, 3}}, alpha)}).numbers();
  for (std::size_t i = 0; i < x.size(); i += 3) {
    ASSERT_NEAR(x[i] + x[i + 1] + x[i + 2], 1, 1e-6);
    for (std::size_t k = 0; k < 3; ++k) sums[k] += x[i + k] / kMany;
  }
  for (std::size_t k = 0; k < 3; ++k) {
    double mean = alpha[k] / 4.2;
    EXPECT_NEAR(sums[k], mean, 5 * std::sqrt(mean * (1 - mean) / 5.2 / kMany));
  }
}

TEST(Sample, DirichletOfTinyConcentrationsIsNoNan) {
  Numbers x = sample("random_dirichlet", {HostTensor({DType::kF32, {2, 2}}, {1e-4, 1e-4, 1e-4, 1e-4})}).numbers();
  EXPECT_NEAR(x[0] + x[1], 1, 1e-6);
  EXPECT_NEAR(x[2] + x[3], 1, 1e-6);
}

HostTensor classes(const HostTensor& weights, std::int64_t count, bool replacement, const StepContext& step = {}) {
  return run_op(*make_reference_backend(), "random_multinomial", {weights},
                Attrs::of(MultinomialAttrs{count, replacement, 5}), step)[0];
}

TEST(Sample, MultinomialFollowsTheWeights) {
  HostTensor weights({DType::kF32, {4}}, {1, 0, 5, 2});
  std::map<double, double> share;
  for (double value : classes(weights, kMany, true).numbers()) share[value] += 1.0 / kMany;
  EXPECT_EQ(share.count(1), 0u);
  for (auto [k, p] : std::map<double, double>{{0, 0.125}, {2, 0.625}, {3, 0.25}}) {
    EXPECT_NEAR(share[k], p, 5 * std::sqrt(p * (1 - p) / kMany)) << k;
  }
}

// Without replacement: P(first = i) = w_i, P(second = j | i) = w_j / (1 - w_i), and no class twice.
TEST(Sample, MultinomialWithoutReplacementDrawsOneAfterTheOther) {
  Numbers weights;
  for (std::int64_t i = 0; i < kMany; ++i) weights.insert(weights.end(), {0.5, 0.3, 0.2});
  Numbers y = classes(HostTensor({DType::kF32, {kMany, 3}}, weights), 2, false).numbers();
  std::map<std::pair<double, double>, double> share;
  for (std::size_t i = 0; i < y.size(); i += 2) share[{y[i], y[i + 1]}] += 1.0 / kMany;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(share.count({i, i}), 0u);
    for (int j = 0; j < 3; ++j) {
      if (i == j) continue;
      double p = weights[i] * weights[j] / (1 - weights[i]);
      EXPECT_NEAR((share[{i, j}]), p, 5 * std::sqrt(p * (1 - p) / kMany)) << i << " " << j;
    }
  }
}

TEST(Sample, ClassesOfNoWeightComeLast) {
  HostTensor weights({DType::kF32, {4}}, {0, 3, 0, 1});
  for (std::uint64_t step = 0; step < 50; ++step) {
    Numbers y = classes(weights, 4, false, {.step = step}).numbers();
    EXPECT_EQ(y[0] + y[1], 4) << y[0] << " " << y[1];
  }
}

TEST(Sample, SeedStepReplicaAndStreamAllMatter) {
  for (const char* op : {"random_gamma", "random_poisson", "random_dirichlet"}) {
    std::vector<HostTensor> parameters{filled(64, 3)};
    HostTensor base = sample(op, parameters);
    EXPECT_EQ(base, sample(op, parameters)) << op;
    EXPECT_NE(base, sample(op, parameters, 4)) << op;
    EXPECT_NE(base, sample(op, parameters, 3, {.seed = 43})) << op;
    EXPECT_NE(base, sample(op, parameters, 3, {.seed = 42, .step = 1})) << op;
    EXPECT_NE(base, sample(op, parameters, 3, {.seed = 42, .replica = 1})) << op;
  }
}

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Sample, ParametersOfNoDistributionAreErrors) {
  EXPECT_NE(error_of([] { sample("random_gamma", {filled(3, -1)}); }).find("shape parameter -1 of element 0"),
            std::string::npos);
  EXPECT_NE(error_of([] { sample("random_poisson", {filled(3, -2)}); }).find("rate -2"), std::string::npos);
  EXPECT_NE(error_of([] { sample("random_dirichlet", {filled(3, 0)}); }).find("concentration 0"), std::string::npos);
  EXPECT_NE(error_of([] { classes(filled(3, -1), 2, true); }).find("weight -1"), std::string::npos);
  EXPECT_NE(error_of([] { classes(filled(3, 0), 2, true); }).find("row 0 are all zero"), std::string::npos);
  EXPECT_NE(error_of([] { classes(filled(3, 1), 4, false); }).find("4 samples from 3 classes"), std::string::npos);
}

// Made with 40 digits from the definition, -(dF/da) / (dF/dz).
TEST(Pathwise, GammaIsExact) {
  constexpr double kCases[][3] = {{0.05, 1e-12, 5.426635225e-10}, {0.5, 0.2, 0.7940505663}, {1, 3, 1.937911694},
                                  {3, 2, 0.8565714221},           {10, 14, 1.197422898},    {300, 280, 0.9664368992},
                                  {20000, 20200, 1.004991791}};
  for (auto [alpha, z, wanted] : kCases) {
    EXPECT_NEAR(pathwise::gamma_gradient(alpha, z) / wanted, 1, 1e-5) << alpha << " " << z;
  }
}

TEST(Pathwise, BetaIsExact) {
  constexpr double kCases[][4] = {{1e-08, 0.05, 0.1, 5.669318142e-06}, {0.999, 0.05, 0.35, 58.37911135},
                                  {0.3, 1, 2, 0.5159883447},           {0.9, 3, 3.2, 0.3596559937},
                                  {0.02, 0.5, 20.5, 0.05948563521},    {0.45, 10, 20, 0.04900109189},
                                  {0.26, 100, 400, 0.002555749567}};
  for (auto [x, alpha, total, wanted] : kCases) {
    EXPECT_NEAR(pathwise::beta_gradient(x, alpha, total) / wanted, 1, 5e-5) << x << " " << alpha << " " << total;
  }
}

TEST(Pathwise, EndsAreNumbers) {
  EXPECT_EQ(pathwise::gamma_gradient(0.5, 0), 0);
  EXPECT_TRUE(std::isfinite(pathwise::gamma_gradient(1e-3, 1.2e-38)));
  EXPECT_TRUE(std::isfinite(pathwise::gamma_gradient(1e7, 1e7)));
  EXPECT_TRUE(std::isfinite(pathwise::gamma_gradient(2, 500)));
  EXPECT_EQ(pathwise::beta_gradient(1, 2, 2), 0);
  EXPECT_TRUE(std::isfinite(pathwise::beta_gradient(1, 2, 3)));
  EXPECT_TRUE(std::isfinite(pathwise::beta_gradient(1.2e-38, 1e-3, 2e-3)));
}

// E[z] = alpha, so the mean of dz/dalpha is 1.
TEST(Pathwise, GammaGradientHasTheMeanOfTheDerivative) {
  for (double a : {0.3, 2.0, 30.0}) {
    HostTensor alpha = filled(kMany, a);
    auto backend = make_reference_backend();
    Numbers g =
        run_gradient(*backend, "random_gamma", {alpha}, {filled(kMany, 1)}, Attrs::of(SampleAttrs{9}), {.seed = 1})[0]
            .numbers();
    double mean = std::accumulate(g.begin(), g.end(), 0.0) / kMany, square = 0;
    for (double value : g) square += (value - mean) * (value - mean) / kMany;
    EXPECT_NEAR(mean, 1, 5 * std::sqrt(square / kMany)) << a;
  }
}

}  // namespace
}  // namespace aspen::testing
