// Indices that are wrong, meet one another or point at zeros. Expected values are PyTorch's.
#include "aspen/ops/index/index.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/reference.h"

namespace aspen::testing {
namespace {

TEST(Take, ReplacesTheAxisByTheShapeOfTheIndex) {
  HostTensor x = f32({2, 3}, {0, 1, 2, 10, 11, 12});
  EXPECT_EQ(apply("take", {x, i32({2, 2}, {2, 0, 1, 1})}, TakeAttrs{1})[0],
            f32({2, 2, 2}, {2, 0, 1, 1, 12, 10, 11, 11}));
  EXPECT_EQ(apply("take", {x, i32({}, {1})}, TakeAttrs{0})[0], f32({3}, {10, 11, 12}));
}

TEST(Index, OutOfRangeNamesOpIndexPositionAndSize) {
  HostTensor x = f32({2, 3}, {0, 1, 2, 10, 11, 12}), index = i32({2, 2}, {0, 1, 3, 0});
  const std::string rest = " at position [1, 0] is out of range for an axis of size 3; expected 0 <= index < 3.";
  EXPECT_EQ(user_error([&] { apply("take", {x, index}, TakeAttrs{1}); }), "[take] index 3" + rest);
  EXPECT_EQ(user_error([&] { apply("gather", {x, index}, GatherAttrs{1}); }), "[gather] index 3" + rest);
  HostTensor negative = i32({2, 2}, {0, 1, -1, 0}), update({DType::kF32, {2, 2}});
  EXPECT_EQ(user_error([&] {
              apply("scatter", {x, negative, update}, ScatterAttrs{1, "add"});
            }),
            "[scatter] index -1" + rest);
  HostTensor rows({DType::kF32, {2, 2, 2}});
  EXPECT_EQ(user_error([&] {
              apply("scatter_rows", {x, negative, rows}, ScatterAttrs{1, "set"});
            }),
            "[scatter_rows] index -1" + rest);
}

TEST(WrapIndex, CountsNegativeIndicesFromTheEnd) {
  EXPECT_EQ(apply("wrap_index", {i32({4}, {-5, -1, 0, 4})}, WrapIndexAttrs{5})[0], i32({4}, {0, 4, 0, 4}));
  EXPECT_EQ(user_error([] {
              apply("wrap_index", {i32({2}, {0, -6})}, WrapIndexAttrs{5});
            }),
            "[wrap_index] index -6 at position [1] is out of range for an axis of size 5; expected -5 <= index < 5.");
}

TEST(Scatter, SetKeepsTheLastWriterAndHandsAllTheGradient) {
  std::vector<HostTensor> inputs{f32({3}, {1, 2, 3}), i32({3}, {1, 1, 0}), f32({3}, {10, 20, 30})};
  ScatterAttrs attrs{0, "set"};
  EXPECT_EQ(apply("scatter", inputs, attrs)[0].numbers(), (Numbers{30, 20, 3}));
  auto gradients = differentiate("scatter", inputs, {f32({3}, {5, 6, 7})}, attrs);
  EXPECT_EQ(gradients[0].numbers(), (Numbers{0, 0, 7}));
  EXPECT_EQ(gradients[2].numbers(), (Numbers{6, 6, 5}));
}

TEST(Scatter, ProductHasExactGradientsAroundZeros) {
  // Place 0: 2 * 0 * 3 (one zero); place 1: 5 * 0 * 0 (two); place 2: 0 * 7 (x is the zero).
  std::vector<HostTensor> inputs{f32({3}, {2, 5, 0}), i32({5}, {0, 0, 1, 1, 2}), f32({5}, {0, 3, 0, 0, 7})};
  ScatterAttrs attrs{0, "mul"};
  EXPECT_EQ(apply("scatter", inputs, attrs)[0].numbers(), (Numbers{0, 0, 0}));
  auto gradients = differentiate("scatter", inputs, {f32({3}, {1, 1, 1})}, attrs);
  EXPECT_EQ(gradients[0].numbers(), (Numbers{0, 0, 7}));
  EXPECT_EQ(gradients[2].numbers(), (Numbers{6, 0, 0, 0, 0}));
}

TEST(Scatter, TiesShareTheGradientEvenly) {
  std::vector<HostTensor> inputs{f32({2}, {4, 1}), i32({4}, {0, 0, 0, 1}), f32({4}, {4, 2, 4, 8})};
  ScatterAttrs attrs{0, "max"};
  EXPECT_EQ(apply("scatter", inputs, attrs)[0].numbers(), (Numbers{4, 8}));
  auto gradients = differentiate("scatter", inputs, {f32({2}, {3, 5})}, attrs);
  EXPECT_EQ(gradients[0].numbers(), (Numbers{1, 0}));
  EXPECT_EQ(gradients[2].numbers(), (Numbers{1, 0, 1, 5}));
}

TEST(Scatter, NaNWinsAMinimum) {
  auto y = apply("scatter", {f32({2}, {4, std::nan("")}), i32({2}, {0, 1}), f32({2}, {std::nan(""), 1})},
                 ScatterAttrs{0, "min"})[0];
  EXPECT_TRUE(std::isnan(y.at(0)));
  EXPECT_TRUE(std::isnan(y.at(1)));
}

TEST(ScatterRows, HalfAddsUpInFloat) {
  HostTensor x = f16({1, 1}, {0}), index({DType::kI32, {4096}}), ones = f16({4096, 1}, Numbers(4096, 1));
  EXPECT_EQ(apply("scatter_rows", {x, index, ones}, ScatterAttrs{0, "add"})[0].at(0), 4096);
}

TEST(Searchsorted, GoesBeforeOrAfterItsEquals) {
  HostTensor sorted = f32({4}, {1, 2, 2, 5}), values = f32({5}, {0, 2, 5, 9, std::nan("")});
  EXPECT_EQ(apply("searchsorted", {sorted, values}, SearchsortedAttrs{false})[0].numbers(), (Numbers{0, 1, 3, 4, 4}));
  EXPECT_EQ(apply("searchsorted", {sorted, values}, SearchsortedAttrs{true})[0].numbers(), (Numbers{0, 3, 4, 4, 4}));
}

}  // namespace
}  // namespace aspen::testing
