// Moves that crop, overlap with nothing or leave nothing behind, on every element type.
#include "aspen/ops/shape/shape.h"

#include <gtest/gtest.h>

#include "tests/support/reference.h"

namespace aspen::testing {
namespace {

Numbers counting(std::int64_t n) {
  Numbers numbers;
  for (std::int64_t i = 0; i < n; ++i) numbers.push_back(static_cast<double>(i));
  return numbers;
}

TEST(Shape, MovesEveryElementType) {
  for (int i = 0; i < kNumDTypes; ++i) {
    auto dtype = static_cast<DType>(i);
    if (dtype == DType::kI64) continue;  // no op but narrow takes it
    HostTensor x({dtype, {2, 3}}, {0, 1, 1, 0, 0, 1});
    EXPECT_EQ(apply("transpose", {x}, TransposeAttrs{{1, 0}})[0], HostTensor({dtype, {3, 2}}, {0, 0, 1, 0, 1, 1}));
    EXPECT_EQ(apply("pad", {x}, PadAttrs{{0, 1}, {0, 0}, {0, 0}, 1})[0],
              HostTensor({dtype, {2, 4}}, {1, 0, 1, 1, 1, 0, 0, 1}));
  }
}

TEST(Transpose, OfFourAxes) {
  HostTensor x = f32({2, 3, 1, 2}, counting(12));
  EXPECT_EQ(apply("transpose", {x}, TransposeAttrs{{3, 1, 2, 0}})[0].numbers(),
            (Numbers{0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11}));
}

TEST(Pad, PutsInteriorFirstAndCropsAfter) {
  HostTensor x = i32({4}, {1, 2, 3, 4});
  EXPECT_EQ(apply("pad", {x}, PadAttrs{{1}, {2}, {1}, 9})[0].numbers(), (Numbers{9, 1, 9, 2, 9, 3, 9, 4, 9, 9}));
  EXPECT_EQ(apply("pad", {x}, PadAttrs{{-1}, {-2}, {1}, 9})[0].numbers(), (Numbers{9, 2, 9, 3}));
  EXPECT_EQ(apply("pad", {x}, PadAttrs{{-7}, {3}, {1}, 9})[0].numbers(), (Numbers{9, 9, 9}));
}

TEST(Pad, GradientIsZeroForWhatWasCropped) {
  HostTensor x = f32({4}, {1, 2, 3, 4});
  auto dx = differentiate("pad", {x}, {f32({4}, {10, 20, 30, 40})}, PadAttrs{{-1}, {-2}, {1}, 9})[0];
  EXPECT_EQ(dx.numbers(), (Numbers{0, 20, 40, 0}));
  dx = differentiate("pad", {x}, {f32({3}, {10, 20, 30})}, PadAttrs{{-7}, {3}, {1}, 9})[0];
  EXPECT_EQ(dx.numbers(), (Numbers{0, 0, 0, 0}));
}

TEST(Slice, OfNothingHasAGradientOfZeros) {
  HostTensor x = f32({3}, {1, 2, 3});
  EXPECT_EQ(apply("slice", {x}, SliceAttrs{{2}, {2}, {1}})[0].size(), 0);
  auto dx = differentiate("slice", {x}, {f32({0}, {})}, SliceAttrs{{2}, {2}, {1}})[0];
  EXPECT_EQ(dx.numbers(), (Numbers{0, 0, 0}));
}

TEST(SliceUpdate, MayWorkInPlace) {
  KernelRequest request{"slice_update",
                        Attrs::of(SliceAttrs{{1}, {6}, {2}}),
                        {{{DType::kF32, {6}}}, {{DType::kF32, {3}}}},
                        {{DType::kF32, {6}}}};
  HostTensor x = f32({6}, counting(6)), update = f32({3}, {-1, -2, -3});
  const void* inputs[] = {x.data(), update.data()};
  void* outputs[] = {x.data()};
  reference().create_kernel(request)->run({.inputs = inputs, .outputs = outputs});
  EXPECT_EQ(x.numbers(), (Numbers{0, -1, 2, -2, 4, -3}));
}

TEST(Concat, TakesEmptyParts) {
  auto y = apply("concat", {f32({1, 2}, {1, 2}), f32({0, 2}, {}), f32({2, 2}, {3, 4, 5, 6})}, ConcatAttrs{0})[0];
  EXPECT_EQ(y, f32({3, 2}, {1, 2, 3, 4, 5, 6}));
}

TEST(Shape, ErrorsNameTheValuesAndTheRule) {
  HostTensor x = f32({2, 3}, counting(6));
  EXPECT_EQ(user_error([&] { apply("reshape", {x}, ReshapeAttrs{{4}}); }),
            "[reshape] cannot view f32[2, 3] (6 elements) as [4] (4 elements).");
  EXPECT_EQ(user_error([&] {
              apply("transpose", {x}, TransposeAttrs{{1, 1}});
            }),
            "[transpose] [1, 1] is not a permutation of the axes of f32[2, 3].");
  EXPECT_EQ(user_error([&] {
              apply("broadcast", {x}, BroadcastAttrs{{4, 3}});
            }),
            "[broadcast] cannot broadcast f32[2, 3] to [4, 3]; an axis must be 1 or keep its extent.");
  EXPECT_EQ(user_error([&] {
              apply("slice", {x}, SliceAttrs{{0, 1}, {2, 4}, {1, 1}});
            }),
            "[slice] 1:4:1 is out of range for axis 1 of f32[2, 3]; expected 0 <= start <= end <= size and step >= 1.");
  EXPECT_EQ(
      user_error([&] {
        apply("concat", {x, f32({2, 2}, counting(4))}, ConcatAttrs{0});
      }),
      "[concat] input 1 is f32[2, 2], which does not fit f32[2, 3] along axis 0; all other extents and the element "
      "types must agree.");
  EXPECT_EQ(user_error([&] {
              apply("pad", {x}, PadAttrs{{0, -2}, {0, -2}, {0, 0}, 0});
            }),
            "[pad] low -2 and high -2 crop more than axis 1 of f32[2, 3] holds.");
}

}  // namespace
}  // namespace aspen::testing
