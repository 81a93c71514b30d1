// Ties, NaN, signs and integers, where examples do not go. Expected values are PyTorch's.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/base/error.h"
#include "tests/support/interpret.h"

namespace aspen::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kIntMin = -2147483648.0;
const double kNaN = std::nan("");

using Numbers = std::vector<double>;

HostTensor vector_of(DType type, const Numbers& numbers) {
  return HostTensor({type, {static_cast<std::int64_t>(numbers.size())}}, numbers);
}

Numbers apply(const char* op, DType type, const Numbers& a, const Numbers& b) {
  return run_op(*make_reference_backend(), op, {vector_of(type, a), vector_of(type, b)})[0].numbers();
}

// Gradients by a, then by b, of the sum of the outputs.
Numbers slopes(const char* op, const Numbers& a, const Numbers& b) {
  HostTensor ones = vector_of(DType::kF32, Numbers(a.size(), 1));
  auto gradients =
      run_gradient(*make_reference_backend(), op, {vector_of(DType::kF32, a), vector_of(DType::kF32, b)}, {ones});
  Numbers result = gradients[0].numbers(), by_b = gradients[1].numbers();
  result.insert(result.end(), by_b.begin(), by_b.end());
  return result;
}

// NaN where the expectation has NaN.
void expect_numbers(const Numbers& actual, const Numbers& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(actual[i])) << i;
    } else {
      EXPECT_EQ(actual[i], expected[i]) << i;
    }
  }
}

TEST(Binary, MaxAndMinPropagateNaN) {
  expect_numbers(apply("max", DType::kF32, {kNaN, 1, 1}, {1, kNaN, 2}), {kNaN, kNaN, 2});
  expect_numbers(apply("min", DType::kF32, {kNaN, 1, 1}, {1, kNaN, 2}), {kNaN, kNaN, 1});
}

TEST(Binary, TiesShareTheGradient) {
  expect_numbers(slopes("max", {kNaN, 0, 1, 3}, {1, 0, 2, 2}), {1, 0.5, 0, 1, 1, 0.5, 1, 0});
  expect_numbers(slopes("min", {kNaN, 0, 1, 3}, {1, 0, 2, 2}), {1, 0.5, 1, 0, 1, 0.5, 0, 1});
}

TEST(Binary, RemaindersAndQuotientsOfFloats) {
  Numbers a{5, -5, 5, -5, 1, 0, 1}, b{3, 3, -3, -3, 0, 0, kInf};
  expect_numbers(apply("rem_floor", DType::kF32, a, b), {2, 1, -1, -2, kNaN, kNaN, 1});
  expect_numbers(apply("rem_trunc", DType::kF32, a, b), {2, -2, 2, -2, kNaN, kNaN, 1});
  expect_numbers(apply("div_floor", DType::kF32, a, b), {1, -2, -2, 1, kInf, kNaN, 0});
  expect_numbers(apply("div_trunc", DType::kF32, a, b), {1, -1, -1, 1, kInf, kNaN, 0});
}

TEST(Binary, IntegerDivisionNeverTraps) {
  Numbers a{7, -7, 7, -7, 5, kIntMin}, b{2, 2, -2, -2, 0, -1};
  expect_numbers(apply("div_floor", DType::kI32, a, b), {3, -4, -4, 3, 0, kIntMin});
  expect_numbers(apply("div_trunc", DType::kI32, a, b), {3, -3, -3, 3, 0, kIntMin});
  expect_numbers(apply("rem_floor", DType::kI32, a, b), {1, 1, -1, -1, 5, 0});
  expect_numbers(apply("rem_trunc", DType::kI32, a, b), {1, -1, 1, -1, 5, 0});
}

TEST(Binary, PowerOfIntegers) {
  expect_numbers(apply("pow", DType::kI32, {2, -1, -1, 1, 3, 0, -2}, {-1, -3, -2, -5, 40, 0, 3}),
                 {0, -1, 1, 1, 689956897, 1, -8});
}

TEST(Binary, PowerGradientsAtZero) {
  // by a: 0 where b is 0;  by b: 0 where a is 0 and b is not negative
  expect_numbers(slopes("pow", {0, 0, 2}, {0, 2, 1}), {0, 0, 1, 0, 0, static_cast<double>(2 * std::log(2.0f))});
}

TEST(Binary, ShiftsBeyondTheWidthAreDefined) {
  expect_numbers(apply("shl", DType::kI32, {1, 1, 1, -1}, {4, 31, 32, -1}), {16, kIntMin, 0, 0});
  expect_numbers(apply("shr", DType::kI32, {-8, -8, 8, -8}, {1, 40, 40, -1}), {-4, -1, 0, -1});
  expect_numbers(apply("shl", DType::kI8, {1, 1}, {7, 8}), {-128, 0});
}

TEST(Binary, ArithmeticOfBoolsIsLogic) {
  expect_numbers(apply("add", DType::kBool, {0, 0, 1, 1}, {0, 1, 0, 1}), {0, 1, 1, 1});
  expect_numbers(apply("mul", DType::kBool, {0, 0, 1, 1}, {0, 1, 0, 1}), {0, 0, 0, 1});
  EXPECT_THROW(apply("sub", DType::kBool, {1}, {1}), UserError);
}

TEST(Binary, IntegersWrap) {
  expect_numbers(apply("add", DType::kI32, {2147483647.0}, {1}), {kIntMin});
  expect_numbers(apply("mul", DType::kI8, {100}, {3}), {44});
}

TEST(Binary, AnyNumberButZeroIsTrue) {
  expect_numbers(apply("logical_and", DType::kF32, {0, 0.5, kNaN}, {1, -2, 1}), {0, 1, 1});
  expect_numbers(apply("logical_xor", DType::kI32, {0, 3, 3}, {4, 4, 0}), {1, 0, 1});
}

TEST(Binary, MessagesNameBothOperands) {
  auto backend = make_reference_backend();
  try {
    run_op(*backend, "add", {HostTensor({DType::kF32, {2, 3}}), HostTensor({DType::kF32, {4}})});
    FAIL() << "shapes that do not broadcast were accepted";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "[add] shapes [2, 3] and [4] do not broadcast: sizes 3 and 4 differ and neither is 1.");
  }
  try {
    run_op(*backend, "mul", {HostTensor({DType::kF32, {2}}), HostTensor({DType::kI32, {2}})});
    FAIL() << "different element types were accepted";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "[mul] element types differ: f32[2] and i32[2]; cast one of them.");
  }
}

}  // namespace
}  // namespace aspen::testing
