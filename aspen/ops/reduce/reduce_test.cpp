// Zeros, NaN, ties and nothing at all. Expected values are PyTorch's.
#include "aspen/ops/reduce/reduce.h"

#include <gtest/gtest.h>

#include <cmath>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/base/error.h"
#include "tests/support/interpret.h"

namespace aspen::testing {
namespace {

using Numbers = std::vector<double>;
const double kNaN = std::nan("");

Attrs over(std::vector<std::int64_t> axes, bool keep_axes = false) {
  return Attrs::of(ReduceAttrs{std::move(axes), keep_axes});
}

HostTensor vector_of(DType type, const Numbers& numbers) {
  return HostTensor({type, {static_cast<std::int64_t>(numbers.size())}}, numbers);
}

Numbers apply(const char* op, const HostTensor& x, const Attrs& attrs) {
  return run_op(*make_reference_backend(), op, {x}, attrs)[0].numbers();
}

Numbers slopes(const char* op, const Numbers& x, const Attrs& attrs, const Numbers& g) {
  HostTensor gradient = g.size() == 1 ? HostTensor({DType::kF32, {}}, g) : vector_of(DType::kF32, g);
  return run_gradient(*make_reference_backend(), op, {vector_of(DType::kF32, x)}, {gradient}, attrs)[0].numbers();
}

TEST(Reduce, OfNothing) {
  HostTensor empty({DType::kF32, {2, 0}});
  EXPECT_EQ(apply("reduce_sum", empty, over({1})), (Numbers{0, 0}));
  EXPECT_EQ(apply("reduce_prod", empty, over({1})), (Numbers{1, 1}));
  EXPECT_THROW(apply("reduce_max", empty, over({1})), UserError);
  EXPECT_EQ(apply("reduce_max", HostTensor({DType::kBool, {2, 0}}), over({1})), (Numbers{0, 0}));
  EXPECT_EQ(apply("reduce_min", HostTensor({DType::kBool, {2, 0}}), over({1})), (Numbers{1, 1}));
}

TEST(Reduce, HalfAddsUpInFloat) {
  HostTensor x = vector_of(DType::kF16, Numbers(4096, 1));
  EXPECT_EQ(apply("reduce_sum", x, over({0}))[0], 4096);  // in half the sum would stop at 2048
}

TEST(Reduce, NaNWins) {
  EXPECT_TRUE(std::isnan(apply("reduce_max", vector_of(DType::kF32, {1, kNaN, 3}), over({0}))[0]));
  EXPECT_TRUE(std::isnan(apply("reduce_min", vector_of(DType::kF32, {1, kNaN, 3}), over({0}))[0]));
}

TEST(Reduce, TiesShareTheGradient) {
  EXPECT_EQ(slopes("reduce_max", {1, 3, 3, 2}, over({0}), {4}), (Numbers{0, 2, 2, 0}));
  EXPECT_EQ(slopes("reduce_min", {1, 3, 1, 1}, over({0}), {3}), (Numbers{1, 0, 1, 1}));
}

TEST(Reduce, ProductGradientIsExactWithZeros) {
  EXPECT_EQ(slopes("reduce_prod", {2, 3, 4}, over({0}), {1}), (Numbers{12, 8, 6}));
  EXPECT_EQ(slopes("reduce_prod", {0, 2, 3}, over({0}), {1}), (Numbers{6, 0, 0}));
  EXPECT_EQ(slopes("reduce_prod", {0, 2, 0}, over({0}), {1}), (Numbers{0, 0, 0}));
}

TEST(Reduce, RunningProductGradientIsExactWithZeros) {
  Attrs attrs = Attrs::of(ScanAttrs{});
  EXPECT_EQ(slopes("cumprod", {2, 0, 3, 4}, attrs, {1, 1, 1, 1}), (Numbers{1, 32, 0, 0}));
  EXPECT_EQ(slopes("cumprod", {2, 0, 3, 0}, attrs, {1, 1, 1, 1}), (Numbers{1, 8, 0, 0}));
}

TEST(ArgReduce, TakesTheFirstAndNaN) {
  auto position = [](const Numbers& x, bool max) {
    return apply("argreduce", vector_of(DType::kF32, x), Attrs::of(ArgReduceAttrs{0, max, false}))[0];
  };
  EXPECT_EQ(position({3, 5, 5, 1}, true), 1);
  EXPECT_EQ(position({3, 1, 5, 1}, false), 1);
  EXPECT_EQ(position({3, kNaN, 5, kNaN}, true), 1);
  EXPECT_EQ(position({3, kNaN, 5, kNaN}, false), 1);
}

TEST(Reduce, RejectsUnsortedAxes) {
  EXPECT_THROW(apply("reduce_sum", HostTensor({DType::kF32, {2, 3}}), over({1, 0})), UserError);
  EXPECT_THROW(apply("reduce_sum", HostTensor({DType::kF32, {2, 3}}), over({2})), UserError);
}

}  // namespace
}  // namespace aspen::testing
