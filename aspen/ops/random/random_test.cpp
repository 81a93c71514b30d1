#include "aspen/ops/random/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/base/error.h"
#include "aspen/ops/random/philox.h"
#include "tests/support/interpret.h"

namespace aspen::testing {
namespace {

using Numbers = std::vector<double>;

HostTensor draw(const char* op, const Attrs& attrs, const StepContext& step = {.seed = 42}) {
  return run_op(*make_reference_backend(), op, {}, attrs, step)[0];
}

Attrs request(std::int64_t size, std::int64_t stream = 0, DType dtype = DType::kF32) {
  return Attrs::of(RandomAttrs{dtype, {size}, stream});
}

struct Moments {
  double mean = 0, variance = 0;
};
Moments moments(const Numbers& x) {
  double n = static_cast<double>(x.size());
  Moments result{.mean = std::accumulate(x.begin(), x.end(), 0.0) / n};
  for (double value : x) result.variance += (value - result.mean) * (value - result.mean) / n;
  return result;
}

// The known answers published with the Random123 library.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, UniformHasItsMomentsAndNeverReachesOne) {
  for (DType dtype : {DType::kF32, DType::kF16}) {
    Numbers x = draw("random_uniform", request(100000, 1, dtype)).numbers();
    EXPECT_GE(*std::min_element(x.begin(), x.end()), 0);
    EXPECT_LT(*std::max_element(x.begin(), x.end()), 1);
    EXPECT_NEAR(moments(x).mean, 0.5, 0.005);
    EXPECT_NEAR(moments(x).variance, 1.0 / 12, 0.002);
  }
}

TEST(Random, NormalHasItsMomentsAndTails) {
  Numbers x = draw("random_normal", request(100000)).numbers();
  EXPECT_NEAR(moments(x).mean, 0, 0.015);
  EXPECT_NEAR(moments(x).variance, 1, 0.02);
  double beyond = static_cast<double>(std::count_if(x.begin(), x.end(), [](double v) { return std::fabs(v) > 1.96; }));
  EXPECT_NEAR(beyond / 100000, 0.05, 0.005);
}

TEST(Random, SeedStepReplicaAndStreamAllMatter) {
  HostTensor base = draw("random_uniform", request(8));
  EXPECT_EQ(base, draw("random_uniform", request(8)));
  EXPECT_NE(base, draw("random_uniform", request(8), {.seed = 43}));
  EXPECT_NE(base, draw("random_uniform", request(8), {.seed = 42 + (1ull << 32)}));
  EXPECT_NE(base, draw("random_uniform", request(8), {.seed = 42, .step = 1}));
  EXPECT_NE(base, draw("random_uniform", request(8), {.seed = 42, .replica = 1}));
  EXPECT_NE(base, draw("random_uniform", request(8, 1)));
}

TEST(Random, ElementsDoNotDependOnTheSize) {
  Numbers few = draw("random_normal", request(5)).numbers(), many = draw("random_normal", request(50)).numbers();
  many.resize(5);
  EXPECT_EQ(few, many);
}

TEST(Dropout, KeepsTheExpectedShareAndScalesIt) {
  HostTensor ones({DType::kF32, {100000}}, Numbers(100000, 1));
  Numbers y = run_op(*make_reference_backend(), "dropout", {ones}, Attrs::of(DropoutAttrs{0.25, 0}))[0].numbers();
  auto kept = std::count_if(y.begin(), y.end(), [](double v) { return v != 0; });
  EXPECT_NEAR(static_cast<double>(kept) / 100000, 0.75, 0.005);
  for (double value : y) ASSERT_TRUE(value == 0 || value == static_cast<float>(1 / 0.75)) << value;
}

TEST(Dropout, GradientHasTheMaskOfTheForwardPass) {
  HostTensor ones({DType::kF32, {1000}}, Numbers(1000, 1));
  StepContext step{.seed = 5, .step = 9, .replica = 2};
  Attrs attrs = Attrs::of(DropoutAttrs{0.5, 3});
  auto backend = make_reference_backend();
  EXPECT_EQ(run_op(*backend, "dropout", {ones}, attrs, step)[0],
            run_gradient(*backend, "dropout", {ones}, {ones}, attrs, step)[0]);
}

TEST(Dropout, IsExactAtTheEnds) {
  HostTensor ones({DType::kF32, {1000}}, Numbers(1000, 1));
  auto backend = make_reference_backend();
  EXPECT_EQ(run_op(*backend, "dropout", {ones}, Attrs::of(DropoutAttrs{0, 0}))[0], ones);
  EXPECT_EQ(run_op(*backend, "dropout", {ones}, Attrs::of(DropoutAttrs{1, 0}))[0].numbers(), Numbers(1000, 0));
  EXPECT_THROW(run_op(*backend, "dropout", {ones}, Attrs::of(DropoutAttrs{1.5, 0})), UserError);
}

TEST(RandomPermutation, IsAPermutation) {
  Numbers y = draw("random_permutation", Attrs::of(RandomPermutationAttrs{1000, 0})).numbers();
  Numbers identity(1000);
  std::iota(identity.begin(), identity.end(), 0);
  EXPECT_NE(y, identity);
  std::sort(y.begin(), y.end());
  EXPECT_EQ(y, identity);
}

// Each of the six orders of three comes up about equally often.
TEST(RandomPermutation, IsFair) {
  std::map<Numbers, int> counts;
  for (std::uint64_t step = 0; step < 6000; ++step) {
    ++counts[draw("random_permutation", Attrs::of(RandomPermutationAttrs{3, 0}), {.seed = 1, .step = step}).numbers()];
  }
  ASSERT_EQ(counts.size(), 6u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 120);
}

}  // namespace
}  // namespace aspen::testing
