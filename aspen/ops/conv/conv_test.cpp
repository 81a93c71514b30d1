#include "aspen/ops/conv/conv.h"

#include <gtest/gtest.h>

#include "tests/support/reference.h"

namespace aspen::testing {
namespace {

TEST(Conv, CorrelatesWithoutFlipping) {
  HostTensor x = f32({1, 1, 4}, {1, 2, 3, 4}), w = f32({1, 1, 2}, {10, 1}), bias = f32({1}, {0.5});
  EXPECT_EQ(apply("conv", {x, w, bias}, ConvAttrs{{1}, {0}, {1}, 1})[0].numbers(), (Numbers{12.5, 23.5, 34.5}));
}

TEST(Conv, TapsMayFallEntirelyIntoThePadding) {
  HostTensor x = f32({1, 1, 1}, {3}), w = f32({1, 1, 2}, {10, 1});
  EXPECT_EQ(apply("conv", {x, w, HostTensor()}, ConvAttrs{{1}, {2}, {4}, 1})[0].numbers(), (Numbers{0}));
}

TEST(Conv, GroupsSeeOnlyTheirChannels) {
  HostTensor x = f32({1, 2, 2}, {1, 2, 10, 20}), w = f32({4, 1, 1}, {1, 2, 3, 4});
  EXPECT_EQ(apply("conv", {x, w, HostTensor()}, ConvAttrs{{1}, {0}, {1}, 2})[0].numbers(),
            (Numbers{1, 2, 2, 4, 30, 60, 40, 80}));
}

// A stride that leaves a rest: the same gradient belongs to inputs of two extents, so the shape must be told.
TEST(ConvInputGrad, IsATransposedConvolutionOfTheShapeAskedFor) {
  HostTensor g = f32({1, 1, 2}, {1, 10}), w = f32({1, 1, 2}, {2, 3});
  ConvAttrs attrs{{2}, {0}, {1}, 1};
  EXPECT_EQ(apply("conv_input_grad", {g, w}, ConvGradAttrs{attrs, {1, 1, 4}})[0].numbers(), (Numbers{2, 3, 20, 30}));
  EXPECT_EQ(apply("conv_input_grad", {g, w}, ConvGradAttrs{attrs, {1, 1, 5}})[0].numbers(), (Numbers{2, 3, 20, 30, 0}));
}

TEST(Conv, RejectsWhatDoesNotFit) {
  HostTensor x({DType::kF32, {1, 3, 5, 5}}), w({DType::kF32, {4, 2, 3, 3}});
  EXPECT_EQ(user_error([&] {
              apply("conv", {x, w, HostTensor()}, ConvAttrs{{1, 1}, {0, 0}, {1, 1}, 1});
            }),
            "[conv] 3 channels do not fit a weight f32[4, 2, 3, 3] in 1 groups; expected weight (O, C / groups, "
            "kernel...), O a multiple of groups.");
  EXPECT_EQ(
      user_error([&] {
        apply("conv", {x, HostTensor({DType::kF32, {4, 3, 7, 3}}), HostTensor()}, ConvAttrs{{1, 1}, {0, 0}, {1, 1}, 1});
      }),
      "[conv] the kernel reaches over 7 elements, but spatial axis 0 of f32[1, 3, 5, 5] has 5 with padding.");
}

}  // namespace
}  // namespace aspen::testing
