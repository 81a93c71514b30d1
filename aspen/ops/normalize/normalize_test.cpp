#include "aspen/ops/normalize/normalize.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/reference.h"

namespace aspen::testing {
namespace {

TEST(Normalize, OfAConstantIsZero) {
  auto out = apply("normalize", {f32({2, 3}, {7, 7, 7, -1, -1, -1})}, NormalizeAttrs{{1}, 0.25});
  EXPECT_EQ(out[0].numbers(), Numbers(6, 0));
  EXPECT_EQ(out[1], f32({2, 1}, {7, -1}));
  EXPECT_EQ(out[2], f32({2, 1}, {2, 2}));
}

TEST(Normalize, KeepsDigitsFarFromZero) {
  auto out = apply("normalize", {f32({4}, {100001, 100002, 100003, 100004})}, NormalizeAttrs{{0}, 0});
  double deviation = std::sqrt(1.25);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(out[0].at(i), (i - 1.5) / deviation, 1e-6);
}

TEST(Normalize, StatisticsOfHalfAreFloat) {
  auto out = apply("normalize", {f16({2, 4}, {1, 2, 3, 4, 60000, 60000, 60000, 60000})}, NormalizeAttrs{{1}, 1e-5});
  EXPECT_EQ(out[0].type().dtype, DType::kF16);
  EXPECT_EQ(out[1], f32({2, 1}, {2.5, 60000}));
}

// With y, mean and rstd as functions of x = (a, b): mean = (a + b) / 2, rstd = 2 / |a - b| for epsilon 0.
TEST(Normalize, StatisticsHaveGradients) {
  HostTensor x = f32({2}, {1, 5}), g = f32({1}, {3});
  NormalizeAttrs attrs{{0}, 0};
  auto by_mean = differentiate("normalize", {x}, {HostTensor(), g, HostTensor()}, attrs)[0];
  EXPECT_EQ(by_mean.numbers(), (Numbers{1.5, 1.5}));
  auto by_rstd = differentiate("normalize", {x}, {HostTensor(), HostTensor(), g}, attrs)[0];
  EXPECT_NEAR(by_rstd.at(0), 3 * 2.0 / 16, 1e-6);
  EXPECT_NEAR(by_rstd.at(1), -3 * 2.0 / 16, 1e-6);
}

TEST(Normalize, RejectsAxesOutOfOrder) {
  EXPECT_EQ(user_error([] {
              apply("normalize", {HostTensor({DType::kF32, {2, 3}})}, NormalizeAttrs{{1, 0}, 1e-5});
            }),
            "[normalize] axes [1, 0] are not sorted axes of f32[2, 3].");
}

}  // namespace
}  // namespace aspen::testing
