// Kinks, infinities and integers, where examples do not go. Expected values are PyTorch's.
#include "aspen/ops/unary/unary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/base/error.h"
#include "tests/support/interpret.h"

namespace aspen::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

HostTensor vector_of(DType type, const std::vector<double>& numbers) {
  return HostTensor({type, {static_cast<std::int64_t>(numbers.size())}}, numbers);
}

std::vector<double> apply(const char* op, DType type, const std::vector<double>& x, const Attrs& attrs = {}) {
  return run_op(*make_reference_backend(), op, {vector_of(type, x)}, attrs)[0].numbers();
}

std::vector<double> slopes(const char* op, const std::vector<double>& x, const Attrs& attrs = {}) {
  HostTensor ones = vector_of(DType::kF32, std::vector<double>(x.size(), 1));
  return run_gradient(*make_reference_backend(), op, {vector_of(DType::kF32, x)}, {ones}, attrs)[0].numbers();
}

using Numbers = std::vector<double>;

TEST(Unary, RoundsHalvesToEven) {
  EXPECT_EQ(apply("round", DType::kF32, {-1.5, -0.5, 0.5, 1.5, 2.5}), (Numbers{-2, 0, 0, 2, 2}));
  EXPECT_TRUE(std::signbit(apply("round", DType::kF32, {-0.5})[0]));
}

TEST(Unary, KeepsNaNWhereTorchDoes) {
  EXPECT_TRUE(std::isnan(apply("relu", DType::kF32, {kNaN})[0]));
  EXPECT_TRUE(std::isnan(apply("clamp", DType::kF32, {kNaN}, Attrs::of(ClampAttrs{0, 1}))[0]));
  EXPECT_EQ(apply("sign", DType::kF32, {kNaN, -0.0, -2, 3}), (Numbers{0, 0, -1, 1}));
}

TEST(Unary, ClampGivesHighWhenBoundsCross) {
  EXPECT_EQ(apply("clamp", DType::kF32, {-1, 0.5, 3}, Attrs::of(ClampAttrs{1, 0})), (Numbers{0, 0, 0}));
  EXPECT_EQ(apply("clamp", DType::kI32, {-5, 0, 7}, Attrs::of(ClampAttrs{.low = -2})), (Numbers{-2, 0, 7}));
  EXPECT_EQ(apply("clamp", DType::kI32, {-2147483648.0, 2147483647.0}, Attrs::of(ClampAttrs{})),
            (Numbers{-2147483648.0, 2147483647.0}));
}

TEST(Unary, GradientsAtKinks) {
  EXPECT_EQ(slopes("abs", {-2, 0, 3}), (Numbers{-1, 0, 1}));
  EXPECT_EQ(slopes("relu", {-2, 0, 3, kNaN}), (Numbers{0, 0, 1, 1}));
  EXPECT_EQ(slopes("clamp", {-1, 0, 0.5, 1, 2, kNaN}, Attrs::of(ClampAttrs{0, 1})), (Numbers{0, 1, 1, 1, 0, 0}));
  EXPECT_EQ(slopes("clamp", {-1, 0, 0.5, 1, 2, kNaN}, Attrs::of(ClampAttrs{0, 1, true})), (Numbers{0, 0, 1, 0, 0, 1}));
  EXPECT_EQ(slopes("sqrt", {0}), (Numbers{kInf}));
  EXPECT_EQ(slopes("floor", {0.5}), (Numbers{0}));
}

TEST(Unary, LeavesTheDomainAsNaN) {
  for (auto [op, x] : {std::pair{"log", -1.0},
                       {"acos", 1.5},
                       {"acosh", 0.5},
                       {"atanh", 2.0},
                       {"sqrt", -1.0},
                       {"erfinv", 2.0},
                       {"digamma", -1.0}}) {
    EXPECT_TRUE(std::isnan(apply(op, DType::kF32, {x})[0])) << op;
  }
  EXPECT_EQ(apply("log", DType::kF32, {0})[0], -kInf);
  EXPECT_EQ(apply("erfinv", DType::kF32, {-1, 1}), (Numbers{-kInf, kInf}));
  EXPECT_EQ(apply("lgamma", DType::kF32, {0, -1}), (Numbers{kInf, kInf}));
  EXPECT_EQ(apply("digamma", DType::kF32, {0.0, -0.0}), (Numbers{-kInf, kInf}));
}

// Reference values of Abramowitz and Stegun and of PyTorch in double.
TEST(Unary, SpecialFunctionsAreAccurate) {
  Numbers psi = apply("digamma", DType::kF64, {1, 0.5, -1.5, 100.25});
  Numbers psi_expected{-0.57721566490153286, -1.9635100260214235, 0.70315664064524319, 4.602671243274712};
  for (std::size_t i = 0; i < psi.size(); ++i) EXPECT_NEAR(psi[i], psi_expected[i], 1e-13) << i;
  EXPECT_NEAR(apply("trigamma", DType::kF64, {1})[0], M_PI * M_PI / 6, 1e-14);
  EXPECT_NEAR(apply("trigamma", DType::kF64, {-0.5})[0], M_PI * M_PI / 2 + 4, 1e-12);
  for (double y : {-0.999999, -0.7, -1e-9, 0.3, 0.99}) {
    EXPECT_NEAR(std::erf(apply("erfinv", DType::kF64, {y})[0]), y, 1e-15) << y;
  }
}

TEST(Unary, IntegersWrapInsteadOfTrapping) {
  EXPECT_EQ(apply("neg", DType::kI32, {-2147483648.0, 5}), (Numbers{-2147483648.0, -5}));
  EXPECT_EQ(apply("abs", DType::kI8, {-128, -3}), (Numbers{-128, 3}));
  EXPECT_EQ(apply("neg", DType::kU8, {1}), (Numbers{255}));
  EXPECT_EQ(apply("bitwise_not", DType::kU8, {0, 255}), (Numbers{255, 0}));
  EXPECT_EQ(apply("bitwise_not", DType::kBool, {0, 1}), (Numbers{1, 0}));
}

TEST(Unary, AnswersQuestions) {
  EXPECT_EQ(apply("isnan", DType::kF32, {kNaN, kInf, 1}), (Numbers{1, 0, 0}));
  EXPECT_EQ(apply("isinf", DType::kF16, {kNaN, -kInf, 1}), (Numbers{0, 1, 0}));
  EXPECT_EQ(apply("isfinite", DType::kF32, {kNaN, kInf, 1}), (Numbers{0, 0, 1}));
  EXPECT_EQ(apply("isfinite", DType::kI32, {0, 7}), (Numbers{1, 1}));
  EXPECT_EQ(apply("signbit", DType::kF32, {-0.0, 0.0, -1}), (Numbers{1, 0, 1}));
  EXPECT_EQ(apply("logical_not", DType::kF32, {0, -0.0, 2, kNaN}), (Numbers{1, 1, 0, 0}));
}

TEST(Unary, SoftplusIsLinearBeyondItsThreshold) {
  EXPECT_EQ(apply("softplus", DType::kF32, {30}, Attrs::of(SoftplusAttrs{}))[0], 30);
  EXPECT_FLOAT_EQ(apply("softplus", DType::kF32, {1}, Attrs::of(SoftplusAttrs{2, 20}))[0], 1.0634640f);
}

TEST(Unary, RejectsTypesItDoesNotTake) {
  EXPECT_THROW(apply("exp", DType::kI32, {1}), UserError);
  EXPECT_THROW(apply("neg", DType::kBool, {1}), UserError);
  EXPECT_THROW(apply("bitwise_not", DType::kF32, {1}), UserError);
}

}  // namespace
}  // namespace aspen::testing
