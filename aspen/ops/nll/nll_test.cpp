// Ignored, weighted and impossible targets.
#include "aspen/ops/nll/nll.h"

#include <gtest/gtest.h>

#include "tests/support/reference.h"

namespace aspen::testing {
namespace {

const HostTensor kLogProbabilities = f32({3, 2}, {-1, -2, -3, -4, -5, -6});
const HostTensor kWeight = f32({2}, {0.5, 2});

TEST(Nll, MeanDividesByTheWeightThatCounts) {
  auto out = apply("nll", {kLogProbabilities, i32({3}, {0, 1, -100}), kWeight}, NllAttrs{-100, "mean"});
  EXPECT_EQ(out[0], f32({}, {(0.5 * 1 + 2 * 4) / 2.5}));
  EXPECT_EQ(out[1], f32({}, {2.5}));
}

TEST(Nll, IgnoredTargetsAreZeroWithoutReduction) {
  auto out = apply("nll", {kLogProbabilities, i32({3}, {1, 0, 1}), HostTensor()}, NllAttrs{0, "none"});
  EXPECT_EQ(out[0], f32({3}, {2, 0, 6}));
}

TEST(Nll, MeanOverNothingIsZeroAndSoIsItsGradient) {
  std::vector<HostTensor> inputs{kLogProbabilities, i32({3}, {7, 7, 7}), HostTensor()};
  EXPECT_EQ(apply("nll", inputs, NllAttrs{7, "mean"})[0], f32({}, {0}));
  auto dx = differentiate("nll", inputs, {f32({}, {1}), HostTensor()}, NllAttrs{7, "mean"})[0];
  EXPECT_EQ(dx.numbers(), Numbers(6, 0));
}

TEST(Nll, GradientIsWeightedAndZeroElsewhere) {
  auto dx = differentiate("nll", {kLogProbabilities, i32({3}, {0, 1, -100}), kWeight}, {f32({}, {5}), HostTensor()},
                          NllAttrs{-100, "mean"})[0];
  EXPECT_EQ(dx.numbers(), (Numbers{-1, 0, 0, -4, 0, 0}));
}

TEST(Nll, RejectsTargetsOutOfRange) {
  EXPECT_EQ(
      user_error([] {
        apply("nll", {kLogProbabilities, i32({3}, {0, 2, 1}), HostTensor()}, NllAttrs{});
      }),
      "[nll] target 2 of sample 1 is out of range for 2 classes; expected 0 <= target < 2, or ignore_index -100.");
  EXPECT_EQ(user_error([] {
              apply("nll_grad", {i32({3}, {0, 1, -1}), HostTensor(), f32({}, {3}), f32({}, {1}), kLogProbabilities},
                    NllAttrs{});
            }),
            "[nll_grad] target -1 of sample 2 is out of range for 2 classes; expected 0 <= target < 2, or ignore_index "
            "-100.");
}

}  // namespace
}  // namespace aspen::testing
