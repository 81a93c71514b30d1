// attention beside the reference: rows and keys around the sizes of vectors, panels and blocks, masks of every shape.
#include "aspen/ops/attention/attention.h"

#include <limits>

#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

struct Sizes {
  std::int64_t batch, rows, keys, heads, depth, width;

  InputTypes operands() const {
    return {f32({batch, rows, heads, depth}), f32({batch, keys, heads, depth}), f32({batch, keys, heads, width})};
  }
  InputTypes with(const std::optional<TensorType>& mask) const {
    InputTypes types = operands();
    types.push_back(mask);
    return types;
  }
  // Of the gradient.
  InputTypes with_results(const std::optional<TensorType>& mask) const {
    const TensorType y = f32({batch, rows, heads, width});
    InputTypes types = operands();
    types.insert(types.end(), {y, f32({batch, heads, rows}), y, mask});
    return types;
  }
};

// One row and a few, which are multiplied from where they lie; one head and several; more keys than a panel has columns
// and than sums are taken at a time; so many keys that rows are taken in blocks.
const std::vector<Sizes> kSizes{{1, 1, 1, 1, 1, 1},    {2, 1, 70, 3, 33, 17},  {3, 5, 37, 2, 8, 9},
                                {2, 8, 16, 2, 16, 16}, {1, 31, 65, 1, 64, 64}, {2, 50, 129, 3, 20, 68},
                                {1, 9, 1100, 2, 5, 3}, {1, 70, 3000, 1, 4, 7}};

// Means of thousands of numbers around 0 are small beside these.
constexpr double kTolerance = 5e-5;
const Attrs kScaled = Attrs::of(AttentionAttrs{.scale = 0.3});

TEST(Attention, OfEverySizeMatchesTheReference) {
  for (const Sizes& s : kSizes) {
    for (double size : {1.0, 20.0}) compare("attention", kScaled, s.operands(), {kTolerance, -size, size});
    compare("attention", kScaled, s.with(std::nullopt), {.tolerance = kTolerance});
  }
}

TEST(Attention, TakesMasksThatSamplesHeadsAndRowsShare) {
  for (const Sizes& s : kSizes) {
    for (bool by_sample : {false, true}) {
      for (bool by_head : {false, true}) {
        for (bool by_row : {false, true}) {
          const Shape mask{by_sample ? s.batch : 1, by_head ? s.heads : 1, by_row ? s.rows : 1, s.keys};
          compare("attention", kScaled, s.with(f32(mask)), {.tolerance = kTolerance});
          compare("attention", Attrs::of(AttentionAttrs{.scale = 0.3, .fill = -2}),
                  s.with(TensorType{DType::kBool, mask}), {.tolerance = kTolerance});
        }
      }
    }
  }
}

// So many rows and keys that gradients of keys and values are added up over several blocks, of whole vectors or not.
TEST(Attention, GradientMatchesTheReference) {
  std::vector<Sizes> sizes = kSizes;
  sizes.insert(sizes.end(), {{1, 150, 700, 2, 16, 32}, {2, 110, 900, 1, 32, 16}, {1, 90, 1200, 1, 5, 16}});
  for (const Sizes& s : sizes) {
    for (const bool by_row : {false, true}) {
      const Shape mask{1, s.heads, by_row ? s.rows : 1, s.keys};
      compare("attention_grad", kScaled, s.with_results(std::nullopt), {.tolerance = kTolerance});
      compare("attention_grad", kScaled, s.with_results(f32(mask)), {.tolerance = kTolerance});
      compare("attention_grad", Attrs::of(AttentionAttrs{.scale = -0.3, .fill = -2}),
              s.with_results(TensorType{DType::kBool, mask}), {.tolerance = kTolerance});
    }
  }
}

// A row of which all keys are hidden has no weights; its query has no gradient all the same.
TEST(Attention, GradientReadsNothingBehindInfinity) {
  constexpr std::int64_t kRows = 2, kKeys = 3;
  const TensorType q = f32({1, kRows, 1, 2}), k = f32({1, kKeys, 1, 2}), hidden{DType::kBool, {1, 1, kRows, kKeys}};
  const KernelRequest request =
      request_of("attention_grad", Attrs::of(AttentionAttrs{}), {q, k, k, q, f32({1, 1, kRows}), q, hidden});
  const std::vector<float> x(kKeys * 2, 0.5f), log_sum{1.5f, -std::numeric_limits<float>::infinity()};
  const bool mask[kRows * kKeys] = {false, true, false, true, true, true};
  const auto gradients =
      run_kernel(tuned_backend(), request, {x.data(), x.data(), x.data(), x.data(), log_sum.data(), x.data(), mask});
  const float* dq = gradients[0].as<float>();
  for (int i = 0; i < 2 * kRows; ++i) EXPECT_FALSE(std::isnan(dq[i]));
  EXPECT_EQ(dq[2], 0.0f);
  for (int i = 0; i < 2 * kKeys; ++i) EXPECT_TRUE(std::isnan(gradients[2].as<float>()[i]));
}

TEST(Attention, TakesMasksThatSomeInARowShare) {
  const Sizes s{6, 12, 20, 4, 8, 8};
  for (const Shape& mask : {Shape{3, 2, 12, 20}, Shape{2, 4, 1, 20}, Shape{6, 1, 1, 20}}) {
    compare("attention", kScaled, s.with(f32(mask)), {.tolerance = kTolerance});
  }
}

// Hidden keys weigh nothing; a row of which all are hidden has no weights, as in softmax.
TEST(Attention, ReadsNothingBehindInfinity) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr std::int64_t kRows = 3, kKeys = 40;
  const KernelRequest request = request_of("attention", Attrs::of(AttentionAttrs{}),
                                           {f32({1, kRows, 1, 2}), f32({1, kKeys, 1, 2}), f32({1, kKeys, 1, 1}),
                                            TensorType{DType::kBool, {1, 1, kRows, kKeys}}});
  std::vector<float> q(kRows * 2, 1.0f), k(kKeys * 2, 0.5f), v(kKeys, 3.0f);
  v[7] = 5;
  k[0] = kInfinity;
  bool mask[kRows * kKeys];
  for (std::int64_t t = 0; t < kKeys; ++t) {
    mask[t] = t != 7;            // one key is left
    mask[kKeys + t] = t < 10;    // some are
    mask[2 * kKeys + t] = true;  // none is
  }
  const auto y = run_kernel(tuned_backend(), request, {q.data(), k.data(), v.data(), mask});
  EXPECT_EQ(y[0].as<float>()[0], 5.0f);
  EXPECT_FLOAT_EQ(y[0].as<float>()[1], 3.0f);
  EXPECT_TRUE(std::isnan(y[0].as<float>()[2]));
}

// What is kept for a block of rows grows with the keys, not with their square.
// A program that comes from a file may hold any bytes as bools: all but 0 are true.
TEST(Attention, TakesAnyByteOfAMaskAsBool) {
  const TensorType q = f32({1, 3, 2, 4}), mask{DType::kBool, {1, 1, 3, 3}};
  const KernelRequest request = request_of("attention", Attrs::of(AttentionAttrs{.fill = -9}), {q, q, q, mask});
  std::mt19937 random(5);
  const Buffer x = random_buffer(q, random, -1, 1, 2);
  const std::uint8_t bytes[] = {0, 133, 0, 2, 0, 0, 255, 1, 0}, ones[] = {0, 1, 0, 1, 0, 0, 1, 1, 0};
  const auto run = [&](const Backend& backend, const std::uint8_t* hidden) {
    return std::move(run_kernel(backend, request, {x.get(), x.get(), x.get(), hidden})[0]);
  };
  const std::unique_ptr<Backend> reference = make_reference_backend();
  expect_close(q, run(*reference, ones), run(*reference, bytes), 0, "bytes as bools on the reference");
  expect_close(q, run(tuned_backend(), ones), run(tuned_backend(), bytes), 0, "bytes as bools");
}

TEST(Attention, NeedsLittleMemory) {
  constexpr std::int64_t kLong = 4096;
  for (const std::int64_t depth : {16, 5}) {
    const Sizes s{1, kLong, kLong, 2, depth, 16};
    for (const auto& request : {request_of("attention", kScaled, s.operands()),
                                request_of("attention_grad", kScaled, s.with_results(std::nullopt))}) {
      EXPECT_LT(tuned_backend().create_kernel(request)->workspace_bytes(), sizeof(float) * 2 * kLong * kLong / 8);
    }
  }
}

}  // namespace
}  // namespace aspen::testing
