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
    const TensorType statistics = f32({batch, heads, rows});
    InputTypes types = operands();
    types.insert(types.end(), {statistics, statistics, f32({batch, rows, heads, width}), mask});
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

const Backend& reference() {
  static const std::unique_ptr<Backend> backend = make_reference_backend();
  return *backend;
}

// Operands of attention, with the statistics that it makes of them.
class Problem {
 public:
  Problem(const Sizes& sizes, const Attrs& attrs, const std::optional<TensorType>& mask, double size = 1)
      : sizes_(sizes), attrs_(attrs), mask_type_(mask) {
    std::mt19937 random(7);
    for (const auto& type : sizes.operands()) operands_.push_back(random_buffer(*type, random, -size, size, 2));
    if (mask) mask_.push_back(random_buffer(*mask, random, -1, 1, 2));
    g_.push_back(random_buffer(*sizes.with_results(mask)[5], random, -1, 1, 2));
  }

  template <class T>
  T* mask() const {
    return mask_[0].as<T>();
  }

  // Makes a tensor of this size identities of samples and heads, of v or of the gradient of y.
  static void make_identities(const Buffer& buffer, std::int64_t batch, std::int64_t rows, std::int64_t heads) {
    float* x = buffer.as<float>();
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t i = 0; i < heads * rows; ++i) *x++ = i % rows == row ? 1.0f : 0.0f;
      }
    }
  }
  void let_v_be_one() { make_identities(operands_[2], sizes_.batch, sizes_.keys, sizes_.heads); }
  void let_g_be_one() { make_identities(g_[0], sizes_.batch, sizes_.rows, sizes_.heads); }

  std::vector<Buffer> forward(const Backend& backend) const {
    return run_kernel(backend, request_of("attention", attrs_, sizes_.with(mask_type_)),
                      {operands_[0].get(), operands_[1].get(), operands_[2].get(), mask_pointer()});
  }
  KernelRequest backward_request() const {
    return request_of("attention_grad", attrs_, sizes_.with_results(mask_type_));
  }
  std::vector<Buffer> backward(const Backend& backend, const std::vector<Buffer>& results) const {
    return run_kernel(backend, backward_request(),
                      {operands_[0].get(), operands_[1].get(), operands_[2].get(), results[1].get(), results[2].get(),
                       g_[0].get(), mask_pointer()});
  }

 private:
  const void* mask_pointer() const { return mask_.empty() ? nullptr : mask_[0].get(); }

  Sizes sizes_;
  Attrs attrs_;
  std::optional<TensorType> mask_type_;
  std::vector<Buffer> operands_, mask_, g_;
};

void compare_gradients(const Sizes& sizes, const Attrs& attrs, const std::optional<TensorType>& mask) {
  const Problem problem(sizes, attrs, mask);
  const std::vector<Buffer> results = problem.forward(reference());
  const auto expected = problem.backward(reference(), results), actual = problem.backward(tuned_backend(), results);
  const KernelRequest request = problem.backward_request();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expect_close(request.outputs[i], expected[i], actual[i], kTolerance, to_string(request));
  }
}

// So many rows and keys that gradients of keys and values are added up over several blocks, of whole vectors or not.
TEST(Attention, GradientMatchesTheReference) {
  std::vector<Sizes> sizes = kSizes;
  sizes.insert(sizes.end(), {{1, 150, 700, 2, 16, 32}, {2, 110, 900, 1, 32, 16}, {1, 90, 1200, 1, 5, 16}});
  for (const Sizes& s : sizes) {
    for (const bool by_row : {false, true}) {
      const Shape mask{1, s.heads, by_row ? s.rows : 1, s.keys};
      compare_gradients(s, kScaled, std::nullopt);
      compare_gradients(s, kScaled, f32(mask));
      compare_gradients(s, Attrs::of(AttentionAttrs{.scale = -0.3, .fill = -2}), TensorType{DType::kBool, mask});
    }
  }
}

// What masks hide keys with.
constexpr float kFills[] = {-1e4f, -1e9f, std::numeric_limits<float>::lowest(),
                            -std::numeric_limits<float>::infinity()};

// Hides all keys from the first row, unless no weights would be left, all but one from the second, and some from
// others.
void hide_keys(const Problem& problem, const Sizes& s, bool by_sums, float fill) {
  std::mt19937 random(3);
  for (std::int64_t row = 0; row < s.rows; ++row) {
    for (std::int64_t t = 0; t < s.keys; ++t) {
      const bool all = row == 0 && std::isfinite(fill), all_but_one = row < 2;
      const bool hides = all || (t != s.keys / 2 && (all_but_one || random() % 2 == 0));
      const std::int64_t at = row * s.keys + t;
      if (by_sums) {
        problem.mask<float>()[at] = hides ? fill : 0;
      } else {
        problem.mask<bool>()[at] = hides;
      }
    }
  }
}

// The weights of the gradient beside those of the results: of values that are an identity these are the weights, and so
// is the gradient of values where that of the results is an identity.
void expect_same_weights(Sizes s, const Attrs& attrs, const std::optional<TensorType>& mask, float fill) {
  s.width = s.keys;
  Problem forward(s, attrs, mask, 3);
  s.width = s.rows;
  Problem backward(s, attrs, mask, 3);
  for (const Problem* problem : {&forward, &backward}) {
    if (mask) hide_keys(*problem, s, mask->dtype == DType::kF32, fill);
  }
  forward.let_v_be_one();
  backward.let_g_be_one();
  const std::vector<Buffer> results = forward.forward(tuned_backend());
  const std::vector<Buffer> gradients = backward.backward(tuned_backend(), results);
  const float *y = results[0].as<float>(), *dv = gradients[2].as<float>();
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t row = 0; row < s.rows; ++row) {
      for (std::int64_t head = 0; head < s.heads; ++head) {
        for (std::int64_t t = 0; t < s.keys; ++t) {
          const float before = y[((b * s.rows + row) * s.heads + head) * s.keys + t];
          const float again = dv[((b * s.keys + t) * s.heads + head) * s.rows + row];
          ASSERT_EQ(before, again) << to_string(backward.backward_request()) << ", fill " << fill << ", sample " << b
                                   << ", row " << row << ", head " << head << ", key " << t;
          if (mask && row == 0 && std::isfinite(fill) && mask->dtype == DType::kBool) {
            ASSERT_EQ(before, 1.0f / static_cast<float>(s.keys));
          }
        }
      }
    }
  }
}

TEST(Attention, GradientMakesTheSameWeightsAgain) {
  const std::vector<Sizes> sizes{{2, 1, 1, 2, 3, 0},     {2, 1, 70, 3, 33, 0},   {3, 5, 37, 2, 8, 0},
                                 {2, 7, 9, 1, 600, 0},   {2, 8, 16, 2, 16, 0},   {1, 31, 65, 1, 64, 0},
                                 {2, 50, 129, 3, 20, 0}, {1, 70, 1100, 2, 16, 0}};
  for (const Sizes& s : sizes) {
    for (const double scale : {1.0, 0.3, -0.7, 40.0}) {
      expect_same_weights(s, Attrs::of(AttentionAttrs{.scale = scale}), std::nullopt, 0);
      for (const float fill : kFills) {
        const Attrs attrs = Attrs::of(AttentionAttrs{.scale = scale, .fill = fill});
        const Shape mask{1, 1, s.rows, s.keys};
        expect_same_weights(s, attrs, f32(mask), fill);
        expect_same_weights(s, attrs, TensorType{DType::kBool, mask}, fill);
      }
    }
  }
}

// Where one key has all the weight, scores have no gradient, rather than what rounding leaves of one: optimisers that
// divide by its size would take it for a large one.
TEST(Attention, OneVisibleKeyHasAllTheWeightAndItsScoreNoGradient) {
  const auto expect_nothing = [](const Sizes& s, const std::optional<TensorType>& mask, float fill) {
    const Problem problem(s, Attrs::of(AttentionAttrs{.scale = 0.3, .fill = fill}), mask, 50);
    for (std::int64_t at = 0; mask && at < s.rows * s.keys; ++at) {
      const bool hides = at % s.keys != s.keys / 2;
      if (mask->dtype == DType::kF32) {
        problem.mask<float>()[at] = hides ? fill : 0;
      } else {
        problem.mask<bool>()[at] = hides;
      }
    }
    for (const Backend* backend : {&reference(), static_cast<const Backend*>(&tuned_backend())}) {
      const auto gradients = problem.backward(*backend, problem.forward(*backend));
      const auto is_zero = [](float x) { return x == 0; };
      const float *dq = gradients[0].as<float>(), *dk = gradients[1].as<float>();
      EXPECT_TRUE(std::all_of(dq, dq + s.batch * s.rows * s.heads * s.depth, is_zero)) << backend->name() << fill;
      EXPECT_TRUE(std::all_of(dk, dk + s.batch * s.keys * s.heads * s.depth, is_zero)) << backend->name() << fill;
    }
  };
  for (const std::int64_t rows : {1, 5, 40}) {
    expect_nothing({2, rows, 1, 3, 20, 13}, std::nullopt, 0);
    for (const float fill : kFills) {
      if (fill == -1e4f) continue;  // scores of these operands are as large
      const Shape mask{1, 1, rows, 19};
      expect_nothing({2, rows, 19, 3, 20, 13}, f32(mask), fill);
      expect_nothing({2, rows, 19, 3, 20, 13}, TensorType{DType::kBool, mask}, fill);
    }
  }
}

// A row of which all keys are hidden has no weights; its query has no gradient all the same.
TEST(Attention, GradientReadsNothingBehindInfinity) {
  constexpr std::int64_t kRows = 2, kKeys = 3;
  const TensorType q = f32({1, kRows, 1, 2}), k = f32({1, kKeys, 1, 2}), hidden{DType::kBool, {1, 1, kRows, kKeys}};
  const KernelRequest request = request_of("attention_grad", Attrs::of(AttentionAttrs{}),
                                           {q, k, k, f32({1, 1, kRows}), f32({1, 1, kRows}), q, hidden});
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x(kKeys * 2, 0.5f), top{0.5f, -kInfinity}, sum{2, kNaN};
  const bool mask[kRows * kKeys] = {false, true, false, true, true, true};
  const auto gradients =
      run_kernel(tuned_backend(), request, {x.data(), x.data(), x.data(), top.data(), sum.data(), x.data(), mask});
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
  expect_close(q, run(reference(), ones), run(reference(), bytes), 0, "bytes as bools on the reference");
  expect_close(q, run(tuned_backend(), ones), run(tuned_backend(), bytes), 0, "bytes as bools");
}

// What is kept for a block of rows grows with the keys, not with their square.
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
