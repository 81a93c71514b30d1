// Rounding at random: exactly unbiased over all random bits, and the same whatever device an op runs on.
#include "aspen/compiler/stochastic_rounding.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "aspen/compiler/ir/parser.h"
#include "aspen/ops/random/random_rounding.h"

namespace aspen {
namespace {

double mean_over_all_bits(float x) {
  double sum = 0;
  for (std::uint32_t bits = 0; bits < 0x2000; ++bits) sum += static_cast<double>(round_at_random(x, bits));
  return sum / 0x2000;
}

TEST(RoundAtRandom, IsUnbiased) {
  for (float x : {1 + 0x1p-12f, 1 + 0x1p-23f, -3.14159265f, 1e-3f, 0x1p-14f, 60000.7f, -65503.9f}) {
    EXPECT_EQ(mean_over_all_bits(x), static_cast<double>(x)) << x;
  }
}

TEST(RoundAtRandom, IsUnbiasedBelowTheNormalNumbers) {
  for (float x : {1.25f * 0x1p-24f, -0.75f * 0x1p-24f, 0x1p-14f - 0x1p-26f}) {
    double sum = 0;
    for (std::uint64_t i = 0; i < 1024; ++i) {
      sum += static_cast<double>(round_at_random(x, static_cast<std::uint32_t>(i << 22)));
    }
    EXPECT_EQ(sum / 1024, static_cast<double>(x)) << x;
  }
}

TEST(RoundAtRandom, LeavesHalvesAlone) {
  for (std::uint32_t bits : {0u, 0x1fffu, 0xffffffffu}) {
    for (std::uint32_t i = 0; i < 0x10000; ++i) {
      auto half = std::bit_cast<Half>(static_cast<std::uint16_t>(i));
      auto x = static_cast<float>(half);
      if (std::isnan(x)) {
        EXPECT_TRUE(std::isnan(static_cast<float>(round_at_random(x, bits))));
      } else {
        EXPECT_EQ(std::bit_cast<std::uint16_t>(round_at_random(x, bits)), i);
      }
    }
  }
}

TEST(RoundAtRandom, TakesTheNearestBeyondTheLargest) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(static_cast<float>(round_at_random(65519, 0x1fff)), 65504);
  EXPECT_EQ(static_cast<float>(round_at_random(65521, 0)), kInfinity);
  EXPECT_EQ(static_cast<float>(round_at_random(-1e6f, 0)), -kInfinity);
}

std::vector<std::int64_t> streams(const char* text) {
  auto graph = parse_graph(text);
  RandomRoundings found(*graph);
  std::vector<std::int64_t> result;
  for (const auto& op : graph->ops()) {
    if (!op->is("send")) result.push_back(found[*op].stream);
  }
  return result;
}

TEST(RandomRoundings, FollowWhatIsComputedNotWhere) {
  auto on_one = streams(R"(graph @main(%x: f16[2]) {
  variable %w: f16[2] parameter
  %0: f16[2] = mul(%x, %w)
  %1: f16[2] = exp(%0)
  return y: %1
})");
  auto on_two = streams(R"(graph @main(%x: f16[2]) {
  variable %w: f16[2] parameter
  lane 0
  lane 1 device 1
  task 0 "a"
  task 1 "b" device 1 lane 1
  %0: f16[2] = mul(%x, %w) task 0
  %1: f16[2] = send(%0) {lane=1} task 0
  %2: f16[2] = exp(%1) device 1 task 1
  return y: %2
})");
  EXPECT_EQ(on_one, on_two);
  EXPECT_NE(on_one[0], on_one[1]);
  EXPECT_NE(on_one[0], 0);
}

TEST(RandomRoundings, LeaveOutWhatRoundsNothing) {
  EXPECT_EQ(streams(R"(graph @main(%x: f16[2, 3]) {
  %0: f16[3, 2] = transpose(%x) {permutation=[1, 0]}
  %1: f32[3, 2] = cast(%0) {dtype=f32}
  %2: f32[3, 2] = exp(%1)
  return y: %2
})"),
            (std::vector<std::int64_t>{0, 0, 0}));
}

}  // namespace
}  // namespace aspen
