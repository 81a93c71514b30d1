// Expected values are PyTorch's (interpolate).
#include "aspen/ops/resize/resize.h"

#include <gtest/gtest.h>

#include "tests/support/reference.h"

namespace aspen::testing {
namespace {

const HostTensor kImage = f32({1, 1, 2, 3}, {1, 2, 4, 8, 16, 32});

Numbers resized(const HostTensor& x, ResizeAttrs attrs) { return apply("resize", {x}, std::move(attrs))[0].numbers(); }

void expect_near(const Numbers& actual, const Numbers& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-5) << "element " << i;
}

TEST(Resize, Linear) {
  expect_near(resized(kImage, {"linear", {3, 5}, {2.0 / 3, 3.0 / 5}}),
              {1, 1.4, 2, 3.2, 4, 4.5, 6.3, 9, 14.4, 18, 8, 11.2, 16, 25.6, 32});
}

TEST(Resize, LinearWithAlignedCorners) {
  expect_near(resized(kImage, {"linear", {3, 5}, {0.5, 0.5}, true}),
              {1, 1.5, 2, 3, 4, 4.5, 6.75, 9, 13.5, 18, 8, 12, 16, 24, 32});
}

TEST(Resize, Cubic) {
  expect_near(resized(kImage, {"cubic", {3, 5}, {2.0 / 3, 3.0 / 5}}),
              {0.354695, 0.488097, 0.784722, 1.293222, 1.644778, 4.068001, 5.598003, 9.000001, 14.832001, 18.864000,
               7.781307, 10.707909, 17.215279, 28.370777, 36.083221});
}

TEST(Resize, NearestTakesTheElementBeforeExactTheClosest) {
  HostTensor line = f32({1, 1, 5}, {0, 1, 2, 3, 4});
  EXPECT_EQ(resized(line, {"nearest", {3}, {5.0 / 3}}), (Numbers{0, 1, 3}));
  EXPECT_EQ(resized(line, {"nearest_exact", {3}, {5.0 / 3}}), (Numbers{0, 2, 4}));
}

TEST(Resize, GradientSumsToWhatArrives) {
  HostTensor g = f32({1, 1, 3, 5}, Numbers(15, 1));
  auto dx = differentiate("resize", {kImage}, {g}, ResizeAttrs{"linear", {3, 5}, {2.0 / 3, 3.0 / 5}})[0];
  double sum = 0;
  for (double value : dx.numbers()) sum += value;
  EXPECT_NEAR(sum, 15, 1e-5);
}

TEST(Resize, RejectsUnknownModes) {
  EXPECT_EQ(user_error([] {
              resized(kImage, {"bilinear", {3, 5}, {1, 1}});
            }),
            "[resize] unknown mode \"bilinear\"; expected nearest, nearest_exact, linear or cubic.");
}

}  // namespace
}  // namespace aspen::testing
