#include "aspen/ops/loss_scale/loss_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/reference.h"

namespace aspen::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(GradientStatistics, CountsWhatIsLargeAndWhatIsNotFinite) {
  Numbers counted = apply("gradient_statistics", {f16({6}, {1, -9, 8, kInfinity, -kInfinity, std::nan("")})},
                          GradientStatisticsAttrs{8})[0]
                        .numbers();
  EXPECT_EQ(counted, (Numbers{4, 3}));
}

double next_factor(double factor, double scaling, double large, double updates = 0, std::int64_t period = 1) {
  LossScaleUpdateAttrs attrs{.total = 100, .threshold = 0.01, .largest = 65504, .least = 0.25, .period = period};
  return apply("loss_scale_update", {f32({}, {factor}), f32({}, {scaling}), f32({}, {large}), f32({}, {updates})},
               attrs)[0]
      .at(0);
}

TEST(LossScaleUpdate, HalvesWhereManyGradientsAreLargeAndDoublesOtherwise) {
  EXPECT_EQ(next_factor(4, 8, 0), 8);
  EXPECT_EQ(next_factor(4, 8, 1), 8);  // one of a hundred is not more than the threshold
  EXPECT_EQ(next_factor(4, 8, 2), 2);
}

TEST(LossScaleUpdate, StaysWithinItsBounds) {
  EXPECT_EQ(next_factor(1, 40000, 0), 1);  // 80000 is more than half can hold
  EXPECT_EQ(next_factor(0.25, 1, 50), 0.25);
}

TEST(LossScaleUpdate, ChangesTheFactorOncePerPeriod) {
  EXPECT_EQ(next_factor(4, 8, 0, 0, 3), 4);
  EXPECT_EQ(next_factor(4, 8, 0, 1, 3), 4);
  EXPECT_EQ(next_factor(4, 8, 0, 2, 3), 8);
}

}  // namespace
}  // namespace aspen::testing
