// Conversions that do not fit. Expected values are PyTorch's on x86.
#include "aspen/ops/cast/cast.h"

#include <gtest/gtest.h>

#include <cmath>

#include "aspen/backends/reference/reference_backend.h"
#include "tests/support/interpret.h"

namespace aspen::testing {
namespace {

using Numbers = std::vector<double>;

Numbers convert_numbers(DType from, DType to, const Numbers& x) {
  HostTensor input({from, {static_cast<std::int64_t>(x.size())}}, x);
  return run_op(*make_reference_backend(), "cast", {input}, Attrs::of(CastAttrs{to}))[0].numbers();
}

TEST(Cast, FloatToIntegerTruncatesAndIsDefinedEverywhere) {
  Numbers x{2.9, -2.9, 300, -1, 3e9, std::nan("")};
  EXPECT_EQ(convert_numbers(DType::kF32, DType::kI32, x), (Numbers{2, -2, 300, -1, -2147483648.0, -2147483648.0}));
  EXPECT_EQ(convert_numbers(DType::kF32, DType::kU8, x), (Numbers{2, 254, 44, 255, 0, 0}));
  EXPECT_EQ(convert_numbers(DType::kF32, DType::kI8, x), (Numbers{2, -2, 44, -1, 0, 0}));
}

TEST(Cast, ToBoolAsksForNotZero) {
  EXPECT_EQ(convert_numbers(DType::kF32, DType::kBool, {0, -0.0, 0.1, std::nan("")}), (Numbers{0, 0, 1, 1}));
  EXPECT_EQ(convert_numbers(DType::kI32, DType::kBool, {0, 256}), (Numbers{0, 1}));
}

TEST(Cast, HalfRoundsToNearestEven) {
  EXPECT_EQ(convert_numbers(DType::kF32, DType::kF16, {2049, 2051, 65519})[0], 2048);
  EXPECT_EQ(convert_numbers(DType::kF32, DType::kF16, {2049, 2051, 65519})[1], 2052);
  EXPECT_TRUE(std::isinf(convert_numbers(DType::kF32, DType::kF16, {65520})[0]));
}

}  // namespace
}  // namespace aspen::testing
