// Windows over edges, NaN and ties. Expected values are PyTorch's.
#include "aspen/ops/pool/pool.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/reference.h"

namespace aspen::testing {
namespace {

PoolAttrs window(std::int64_t kernel, std::int64_t stride, std::int64_t padding, bool ceil_mode = false) {
  return {.kernel = {kernel}, .stride = {stride}, .padding = {padding}, .dilation = {1}, .ceil_mode = ceil_mode};
}

TEST(MaxPool, FirstOfEqualsWins) {
  auto out = apply("max_pool", {f32({1, 1, 4}, {2, 2, 5, 5})}, window(4, 4, 0));
  EXPECT_EQ(out[0].numbers(), (Numbers{5}));
  EXPECT_EQ(out[1].numbers(), (Numbers{2}));
}

TEST(MaxPool, NaNWins) {
  auto out = apply("max_pool", {f32({1, 1, 4}, {9, std::nan(""), 5, std::nan("")})}, window(4, 4, 0));
  EXPECT_TRUE(std::isnan(out[0].at(0)));
  EXPECT_EQ(out[1].numbers(), (Numbers{1}));
}

TEST(MaxPool, PaddingIsLessThanAnything) {
  auto out = apply("max_pool", {f32({1, 1, 3}, {-7, -INFINITY, -9})}, window(2, 2, 1));
  EXPECT_EQ(out[0].numbers(), (Numbers{-7, -9}));
  EXPECT_EQ(out[1].numbers(), (Numbers{0, 2}));
}

TEST(MaxPool, CeilModeNeverStartsAWindowInThePadding) {
  HostTensor x = f32({1, 1, 5}, {1, 2, 3, 4, 5});
  EXPECT_EQ(apply("max_pool", {x}, window(2, 2, 0, true))[0].numbers(), (Numbers{2, 4, 5}));
  EXPECT_EQ(apply("max_pool", {f32({1, 1, 2}, {1, 2})}, window(2, 3, 1, true))[0].numbers(), (Numbers{1}));
}

TEST(MaxPool, OverlappingWindowsAddTheirGradients) {
  auto dx = differentiate("max_pool", {f32({1, 1, 4}, {1, 9, 2, 3})}, {f32({1, 1, 3}, {10, 20, 30}), HostTensor()},
                          window(2, 1, 0))[0];
  EXPECT_EQ(dx.numbers(), (Numbers{0, 30, 0, 30}));
}

TEST(MaxPoolGrad, RejectsIndicesOutsideThePlane) {
  EXPECT_EQ(user_error([] {
              apply("max_pool_grad", {f32({1, 1, 2}, {1, 1}), i32({1, 1, 2}, {0, 4})}, MaxPoolGradAttrs{{1, 1, 4}});
            }),
            "[max_pool_grad] index 4 at position 1 is out of range for a plane of 4 elements.");
}

TEST(AvgPool, DivisorsAtTheEdges) {
  HostTensor x = f32({1, 1, 3}, {3, 6, 9});
  PoolAttrs attrs = window(2, 2, 1, true);
  EXPECT_EQ(apply("avg_pool", {x}, attrs)[0].numbers(), (Numbers{1.5, 7.5}));
  attrs.count_include_pad = false;
  EXPECT_EQ(apply("avg_pool", {x}, attrs)[0].numbers(), (Numbers{3, 7.5}));
  attrs.divisor = 5;
  EXPECT_EQ(apply("avg_pool", {x}, attrs)[0].at(1), 3);
}

TEST(AdaptiveAvgPool, BinsMayOverlapAndRepeat) {
  HostTensor x = f32({1, 1, 5}, {0, 3, 6, 9, 12});
  EXPECT_EQ(apply("adaptive_avg_pool", {x}, AdaptiveAvgPoolAttrs{{3}, {}})[0].numbers(), (Numbers{1.5, 6, 10.5}));
  HostTensor pair = f32({1, 1, 2}, {2, 4});
  EXPECT_EQ(apply("adaptive_avg_pool", {pair}, AdaptiveAvgPoolAttrs{{4}, {}})[0].numbers(), (Numbers{2, 2, 4, 4}));
}

TEST(Pool, RejectsPaddingBeyondHalfTheWindow) {
  EXPECT_EQ(
      user_error([] {
        apply("avg_pool", {HostTensor({DType::kF32, {1, 1, 4}})}, window(2, 1, 2));
      }),
      "[avg_pool] kernel 2, stride 1, padding 2, dilation 1 on spatial axis 0; expected kernel, stride, dilation >= "
      "1 and 0 <= padding <= kernel / 2.");
}

}  // namespace
}  // namespace aspen::testing
