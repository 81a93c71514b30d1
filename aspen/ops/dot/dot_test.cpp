#include "aspen/ops/dot/dot.h"

#include <gtest/gtest.h>

#include "tests/support/reference.h"

namespace aspen::testing {
namespace {

TEST(Dot, TransposesEitherOperand) {
  HostTensor a = f32({2, 3}, {1, 2, 3, 4, 5, 6}), at = f32({3, 2}, {1, 4, 2, 5, 3, 6});
  HostTensor b = f32({3, 2}, {1, 0, 2, -1, 0, 3}), bt = f32({2, 3}, {1, 2, 0, 0, -1, 3});
  HostTensor y = f32({2, 2}, {5, 7, 14, 13});
  EXPECT_EQ(apply("dot", {a, b}, DotAttrs{false, false})[0], y);
  EXPECT_EQ(apply("dot", {at, b}, DotAttrs{true, false})[0], y);
  EXPECT_EQ(apply("dot", {a, bt}, DotAttrs{false, true})[0], y);
  EXPECT_EQ(apply("dot", {at, bt}, DotAttrs{true, true})[0], y);
}

TEST(Dot, HalfAddsUpInFloat) {
  HostTensor ones = f16({1, 4096}, Numbers(4096, 1));
  EXPECT_EQ(apply("dot", {ones, ones}, DotAttrs{false, true})[0].at(0), 4096);  // in half the sum would stop at 2048
}

TEST(Dot, OverNothingIsZero) {
  EXPECT_EQ(apply("dot", {f32({2, 0}, {}), f32({0, 1}, {})}, DotAttrs{})[0], f32({2, 1}, {0, 0}));
}

TEST(Dot, RejectsOperandsThatDoNotFit) {
  EXPECT_EQ(user_error([] {
              apply("dot", {HostTensor({DType::kF32, {2, 3}}), HostTensor({DType::kF32, {2, 3}})}, DotAttrs{});
            }),
            "[dot] cannot multiply f32[2, 3] by f32[2, 3]; batch axes and the summed axis must agree.");
  EXPECT_EQ(user_error([] {
              apply("dot", {HostTensor({DType::kF32, {3}}), HostTensor({DType::kF32, {3}})}, DotAttrs{});
            }),
            "[dot] takes operands of equal rank >= 2, not f32[3] and f32[3].");
}

}  // namespace
}  // namespace aspen::testing
