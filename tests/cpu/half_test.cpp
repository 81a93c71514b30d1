// Half and bfloat16 through float (aspen/backends/cpu/widened.h): results are those of the reference up to one
// rounding.
#include <cstring>

#include "aspen/backends/cpu/elementwise.h"
#include "aspen/ops/attention/attention.h"
#include "aspen/ops/batch_norm/batch_norm.h"
#include "aspen/ops/conv/conv.h"
#include "aspen/ops/dot/dot.h"
#include "aspen/ops/loss_scale/loss_scale.h"
#include "aspen/ops/normalize/normalize.h"
#include "aspen/ops/pool/pool.h"
#include "aspen/ops/reduce/reduce.h"
#include "aspen/ops/resize/resize.h"
#include "aspen/ops/softmax/softmax.h"
#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

struct HalfCase {
  std::string op;
  Attrs attrs;
  InputTypes inputs;
  int top = 2;
  double low = -1;  // of floats
};

std::vector<HalfCase> convolutions() {
  ConvAttrs same{{1, 1}, {1, 1}, {1, 1}, 1}, strided{{2, 2}, {1, 1}, {1, 1}, 3};
  std::vector<HalfCase> cases;
  auto add = [&](const Shape& x, const Shape& w, const Shape& y, const ConvAttrs& attrs) {
    cases.push_back({"conv", Attrs::of(attrs), {f16(x), f16(w), f16({w[0]})}});
    cases.push_back({"conv", Attrs::of(attrs), {f16(x), f16(w), std::nullopt}});
    cases.push_back({"conv_input_grad", Attrs::of(ConvGradAttrs{attrs, x}), {f16(y), f16(w)}});
    cases.push_back({"conv_weight_grad", Attrs::of(ConvGradAttrs{attrs, w}), {f16(x), f16(y)}});
  };
  add({2, 24, 9, 9}, {20, 24, 3, 3}, {2, 20, 9, 9}, same);
  add({16, 3, 9, 11}, {7, 3, 3, 3}, {16, 7, 9, 11}, same);  // one image per lane
  add({4, 12, 9, 9}, {18, 4, 3, 3}, {4, 18, 5, 5}, strided);
  return cases;
}

std::vector<HalfCase> products() {
  return {{"dot", Attrs::of(DotAttrs{false, false}), {f16({5, 19}), f16({19, 7})}},
          {"dot", Attrs::of(DotAttrs{false, true}), {f16({130, 200}), f16({170, 200})}},
          {"dot", Attrs::of(DotAttrs{true, true}), {f16({3, 21, 8}), f16({3, 9, 21})}}};
}

std::vector<HalfCase> pools() {
  PoolAttrs window{{3, 3}, {2, 2}, {1, 1}, {1, 1}};
  ResizeAttrs twice{"linear", {14, 18}, {0.5, 0.5}, false, {}};
  ResizeAttrs twice_back = twice;
  twice_back.shape = {2, 3, 7, 9};
  Shape x{2, 3, 7, 9}, y{2, 3, 4, 5};
  return {{"max_pool", Attrs::of(window), {f16(x)}},
          {"max_pool_grad", Attrs::of(MaxPoolGradAttrs{x}), {f16(y), i32(y)}, 63},
          {"avg_pool", Attrs::of(window), {f16(x)}},
          {"avg_pool_grad", Attrs::of(AvgPoolGradAttrs{window, x}), {f16(y)}},
          {"adaptive_avg_pool", Attrs::of(AdaptiveAvgPoolAttrs{{4, 5}, {}}), {f16(x)}},
          {"adaptive_avg_pool_grad", Attrs::of(AdaptiveAvgPoolAttrs{{4, 5}, x}), {f16(y)}},
          {"resize", Attrs::of(twice), {f16(x)}},
          {"resize_grad", Attrs::of(twice_back), {f16({2, 3, 14, 18})}}};
}

std::vector<HalfCase> sums() {
  std::vector<HalfCase> cases;
  Shape x{6, 12, 9, 7}, statistics{1, 12, 1, 1};
  for (const char* op : {"reduce_sum", "reduce_max", "reduce_min"}) {
    cases.push_back({op, Attrs::of(ReduceAttrs{{0, 2, 3}}), {f16(x)}});
    cases.push_back({op, Attrs::of(ReduceAttrs{{0}}), {f16({600, 65})}});
  }
  for (const char* op : {"softmax", "log_softmax"}) {
    cases.push_back({op, Attrs::of(SoftmaxAttrs{1}), {f16(x)}});
    cases.push_back({std::string(op) + "_grad", Attrs::of(SoftmaxAttrs{3}), {f16(x), f16(x)}});
  }
  cases.push_back({"softmax", Attrs::of(SoftmaxAttrs{1}), {f16({301, 333})}});  // some rows at a time
  cases.push_back({"log_softmax", Attrs::of(SoftmaxAttrs{1}), {f16({40, 43, 41})}});
  cases.push_back({"softmax_grad", Attrs::of(SoftmaxAttrs{2}), {f16({7, 43, 333}), f16({7, 43, 333})}});
  const TensorType heads = f16({2, 43, 3, 20}), hidden{DType::kBool, {1, 1, 43, 43}};
  cases.push_back({"attention", Attrs::of(AttentionAttrs{.scale = 0.2}), {heads, heads, heads, f16({2, 1, 1, 43})}});
  cases.push_back({"attention", Attrs::of(AttentionAttrs{.fill = -2}), {heads, heads, heads, hidden}});
  cases.push_back({"attention_grad",
                   Attrs::of(AttentionAttrs{.scale = 0.2}),
                   {heads, heads, heads, f32({2, 3, 43}), f32({2, 3, 43}), heads, hidden},
                   2,
                   0.2});
  Attrs norm = Attrs::of(NormalizeAttrs{{0, 2, 3}, 1e-5});
  cases.push_back({"normalize", norm, {f16(x)}});
  cases.push_back({"normalize_grad", norm, {f16(x), f32(statistics), f16(x)}});  // statistics stay in float
  TensorType channels = f16(statistics), kept = f32(statistics);
  Attrs bounded = Attrs::of(BoundedBatchNormAttrs{.low = 0, .high = 1});
  cases.push_back({"batch_norm", Attrs::of(BatchNormAttrs{}), {f16(x), channels, channels}});
  cases.push_back({"batch_norm_bounded", bounded, {f16(x), channels, channels, f16(x)}});
  cases.push_back({"batch_norm_grad", bounded, {f16(x), channels, channels, kept, kept, f16(x)}});
  cases.push_back({"gradient_statistics", Attrs::of(GradientStatisticsAttrs{0.5}), {f16(x)}});
  return cases;
}

std::vector<HalfCase> all_cases() {
  std::vector<HalfCase> all;
  for (const auto& cases : {convolutions(), products(), pools(), sums()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

class HalfKernels : public ::testing::Test {
 protected:
  // One step of the type at the largest element.
  static double tolerance(const TensorType& type) {
    return type.dtype == DType::kF16 ? 1.0 / 1024 : type.dtype == DType::kBF16 ? 1.0 / 128 : 2e-6;
  }

  std::unique_ptr<Backend> reference_ = make_reference_backend();
  const Backend& cpu_ = tuned_backend();
};

std::vector<HalfCase> in_bfloat16(std::vector<HalfCase> cases) {
  for (HalfCase& c : cases) {
    for (auto& type : c.inputs) {
      if (type && type->dtype == DType::kF16) type->dtype = DType::kBF16;
    }
  }
  return cases;
}

TEST_F(HalfKernels, EqualTheReference) {
  std::vector<HalfCase> cases = all_cases(), narrow = in_bfloat16(cases);
  cases.insert(cases.end(), narrow.begin(), narrow.end());
  for (const HalfCase& c : cases) {
    KernelRequest request = request_of(c.op, c.attrs, c.inputs);
    std::mt19937 random(7);
    std::vector<Buffer> buffers;
    std::vector<const void*> pointers;
    for (const auto& type : c.inputs) {
      if (type) buffers.push_back(random_buffer(*type, random, c.low, 1, c.top));
      pointers.push_back(type ? buffers.back().get() : nullptr);
    }
    auto expected = run_kernel(*reference_, request, pointers), actual = run_kernel(cpu_, request, pointers);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const TensorType& type = request.outputs[i];
      expect_close(type, expected[i], actual[i], tolerance(type), to_string(request));
    }
  }
}

// All inputs, or those of a tile, are converted before the first result is written.
TEST_F(HalfKernels, MayWriteWhereTheyRead) {
  for (const Shape& shape : {Shape{70, 90}, Shape{701, 90}}) {
    KernelRequest request = request_of("softmax_grad", Attrs::of(SoftmaxAttrs{1}), {f16(shape), f16(shape)});
    std::mt19937 random(3);
    Buffer y = random_buffer(request.inputs[0].type, random, 0, 1, 2);
    Buffer g = random_buffer(request.inputs[1].type, random, -1, 1, 2);
    auto apart = run_kernel(cpu_, request, {y.get(), g.get()});
    std::unique_ptr<Kernel> kernel = cpu_.create_kernel(request);
    Buffer workspace(kernel->workspace_bytes());
    const void* inputs[] = {y.get(), g.get()};
    void* outputs[] = {g.get()};
    StepContext step;
    kernel->run({.inputs = inputs, .outputs = outputs, .workspace = workspace.get(), .step = &step});
    expect_close(request.outputs[0], apart[0], g, 0, "in place");
  }
}

// Sums leave the range of half on the way and come back: 80000 is not a half, its mean is.
TEST_F(HalfKernels, SumInFloat) {
  KernelRequest request =
      request_of("avg_pool", Attrs::of(PoolAttrs{{2, 2}, {2, 2}, {0, 0}, {1, 1}}), {f16({1, 1, 2, 2})});
  Half x[] = {Half(20000), Half(20000), Half(20000), Half(20000)};
  EXPECT_EQ(static_cast<float>(*run_kernel(cpu_, request, {x})[0].as<Half>()), 20000.0f);
}

// Every half, the last ones past the end of the vectors: there and back is the same, and so is rounding half way.
TEST_F(HalfKernels, ConversionsRoundLikeTheCompiler) {
  std::vector<Half> halves(65536 + 5);
  std::vector<float> floats(halves.size());
  for (std::size_t i = 0; i < halves.size(); ++i) {
    auto bits = static_cast<std::uint16_t>(i);
    std::memcpy(&halves[i], &bits, sizeof bits);
  }
  auto n = static_cast<std::int64_t>(halves.size());
  to_float(halves.data(), floats.data(), n);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    auto expected = static_cast<float>(halves[i]);
    ASSERT_TRUE(floats[i] == expected || (std::isnan(floats[i]) && std::isnan(expected))) << i;
  }
  for (float factor : {1.0f, 1.00048828125f, 0.99951171875f, 0.7f, 1e-3f}) {
    std::vector<float> scaled(halves.size());
    for (std::size_t i = 0; i < halves.size(); ++i) scaled[i] = floats[i] * factor;
    std::vector<Half> rounded(halves.size());
    from_float(scaled.data(), rounded.data(), n);
    for (std::size_t i = 0; i < halves.size(); ++i) {
      auto expected = static_cast<Half>(scaled[i]);
      ASSERT_TRUE(rounded[i] == expected || (rounded[i] != rounded[i] && expected != expected))
          << scaled[i] << " became " << static_cast<float>(rounded[i]);
    }
  }
}

TEST_F(HalfKernels, ConversionsOfBFloat16AreThoseOfTheType) {
  std::vector<BFloat16> narrow(65536 + 5);
  std::vector<float> floats(narrow.size());
  for (std::size_t i = 0; i < narrow.size(); ++i) narrow[i].bits = static_cast<std::uint16_t>(i);
  auto n = static_cast<std::int64_t>(narrow.size());
  to_float(narrow.data(), floats.data(), n);
  for (float factor : {1.0f, 1.00390625f, 0.998046875f, 0.7f, 1e-3f}) {
    std::vector<float> scaled(narrow.size());
    for (std::size_t i = 0; i < narrow.size(); ++i) scaled[i] = factor == 1 ? floats[i] : floats[i] * factor;
    std::vector<BFloat16> rounded(narrow.size());
    from_float(scaled.data(), rounded.data(), n);
    for (std::size_t i = 0; i < narrow.size(); ++i) {
      ASSERT_EQ(rounded[i].bits, factor == 1 ? narrow[i].bits : BFloat16(scaled[i]).bits) << scaled[i];
    }
  }
}

}  // namespace
}  // namespace aspen::testing
