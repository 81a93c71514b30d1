// Conversions that do not fit. Expected values are PyTorch's on x86.
#include "aspen/ops/cast/cast.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

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

TEST(Cast, BFloat16RoundsToNearestEvenAndKeepsItsNans) {
  // 257 lies between 256 and 258, 259 between 258 and 260.
  Numbers rounded = convert_numbers(DType::kF32, DType::kBF16, {257, 259, 257.01, -0.0, 3.4e38, 1e-41});
  EXPECT_EQ(rounded[0], 256);
  EXPECT_EQ(rounded[1], 260);
  EXPECT_EQ(rounded[2], 258);
  EXPECT_TRUE(std::signbit(rounded[3]));
  EXPECT_TRUE(std::isinf(rounded[4]));
  EXPECT_EQ(rounded[5], 0x1p-133 * std::round(static_cast<double>(1e-41f) * 0x1p133));  // below the normal numbers
  EXPECT_TRUE(std::isnan(convert_numbers(DType::kF32, DType::kBF16, {std::nan("")})[0]));
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    BFloat16 x;
    x.bits = static_cast<std::uint16_t>(i);
    EXPECT_EQ(BFloat16(static_cast<float>(x)).bits, i);
  }
  // A NaN that is one only in the digits bfloat16 lacks.
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x7f800001u)).bits, 0x7fc0);
}

TEST(Cast, BFloat16BecomesWhatItsFloatWould) {
  Numbers x{2.90625, -2.90625, 300, -1, 3e9, std::nan("")};
  EXPECT_EQ(convert_numbers(DType::kBF16, DType::kI32, x), (Numbers{2, -2, 300, -1, -2147483648.0, -2147483648.0}));
  EXPECT_EQ(convert_numbers(DType::kBF16, DType::kU8, x), (Numbers{2, 254, 44, 255, 0, 0}));
  EXPECT_EQ(convert_numbers(DType::kBF16, DType::kBool, {0, -0.0, 0.1, std::nan("")}), (Numbers{0, 0, 1, 1}));
  EXPECT_TRUE(std::isinf(convert_numbers(DType::kBF16, DType::kF16, {65536})[0]));
  EXPECT_EQ(convert_numbers(DType::kI32, DType::kBF16, {257, -3, 0}), (Numbers{256, -3, 0}));
  EXPECT_EQ(convert_numbers(DType::kBool, DType::kBF16, {1, 0}), (Numbers{1, 0}));
}

HostTensor integers(const std::vector<std::int64_t>& x) {
  HostTensor tensor({DType::kI64, {static_cast<std::int64_t>(x.size())}});
  std::memcpy(tensor.data(), x.data(), x.size() * sizeof(std::int64_t));
  return tensor;
}

HostTensor narrowed(const std::vector<std::int64_t>& x) {
  return run_op(*make_reference_backend(), "narrow", {integers(x)}, Attrs::of(NarrowAttrs{"ids"}))[0];
}

TEST(Narrow, KeepsAllThatFits) {
  const HostTensor y = narrowed({0, -1, 2147483647, -2147483648});
  EXPECT_EQ(y.type().dtype, DType::kI32);
  EXPECT_EQ(y.numbers(), (Numbers{0, -1, 2147483647, -2147483648.0}));
}

TEST(Narrow, NamesTheInputAndTheFirstNumberThatDoesNotFit) {
  try {
    narrowed({1, 4294967296, -2147483649});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "[types] input \"ids\" holds 4294967296 among its integers, which have 32 bits on the device: "
                 "-2147483648 <= value <= 2147483647. Use smaller numbers, or floating-point tensors.");
  }
  EXPECT_THROW(narrowed({-2147483649}), UserError);
}

// A graph computes with 32 bits: an input of 64 is for narrow alone.
TEST(Narrow, IsTheOnlyOpOfItsType) {
  Graph graph;
  Builder b(graph);
  Value *wide = graph.add_input("ids", {DType::kI64, {3}}), *y = b.make("narrow", {wide}, NarrowAttrs{"ids"});
  EXPECT_EQ(y->type(), (TensorType{DType::kI32, {3}}));
  EXPECT_THROW(b.make("narrow", {y}, NarrowAttrs{"ids"}), UserError);
  EXPECT_THROW(b.make("neg", {wide}), UserError);
  EXPECT_THROW(b.make("eq", {wide, wide}), UserError);
  EXPECT_THROW(b.make("cast", {wide}, CastAttrs{DType::kF32}), UserError);
  EXPECT_THROW(b.make("cast", {y}, CastAttrs{DType::kI64}), UserError);
}

}  // namespace
}  // namespace aspen::testing
