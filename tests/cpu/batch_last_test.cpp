#include "aspen/ops/batch_last/batch_last.h"

#include <limits>

#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

struct Sizes {
  std::int64_t channels, outputs, images;
  Shape plane, kernel;
  ConvLastAttrs attrs;
  std::vector<std::int64_t> window{2, 2};

  Shape x() const { return {channels, plane[0], plane[1], images}; }
  Shape w() const { return {outputs, channels, kernel[0], kernel[1]}; }
  Shape y() const {
    Shape result{outputs};
    for (std::size_t i = 0; i < 2; ++i) {
      result.push_back(plane[i] + 2 * attrs.padding[i] - attrs.dilation[i] * (kernel[i] - 1));
    }
    result.push_back(images);
    return result;
  }
  Shape pooled() const { return {outputs, y()[1] / window[0], y()[2] / window[1], images}; }
};

void compare_all(const Sizes& s) {
  const TensorType x = f32(s.x()), w = f32(s.w()), y = f32(s.y()), pooled = f32(s.pooled());
  const TensorType place{DType::kU8, s.pooled()};
  const int places = static_cast<int>(s.window[0] * s.window[1]);
  compare("conv_last", Attrs::of(s.attrs), {x, w, f32({s.outputs})});
  compare("conv_last", Attrs::of(s.attrs), {x, w, std::nullopt});
  compare("conv_last_input_grad", Attrs::of(ConvLastGradAttrs{s.attrs, s.x()}), {y, w});
  compare("conv_last_weight_grad", Attrs::of(ConvLastGradAttrs{s.attrs, s.w()}), {x, y});
  const ConvLastPoolAttrs pool{s.attrs, s.window};
  compare("conv_last_pool_weight_grad", Attrs::of(ConvLastPoolGradAttrs{pool, s.w()}), {x, pooled, place},
          {.top = places});
  compare("max_pool_last", Attrs::of(MaxPoolLastAttrs{s.window}), {y}, {.tolerance = 0});
  compare("max_pool_last_grad", Attrs::of(MaxPoolLastGradAttrs{s.window, s.y()}), {pooled, place},
          {.tolerance = 0, .top = places});
}

TEST(BatchLast, TheNetworksOfTheTutorials) {
  compare_all({1, 5, 16, {28, 28}, {3, 3}, {{0, 0}, {1, 1}}});
  compare_all({5, 12, 16, {13, 13}, {5, 5}, {{0, 0}, {1, 1}}});
  compare_all({1, 10, 40, {28, 28}, {5, 5}, {{0, 0}, {1, 1}}});
  compare_all({10, 20, 40, {12, 12}, {5, 5}, {{0, 0}, {1, 1}}});
}

TEST(BatchLast, AnyNumberOfImagesChannelsAndOutputs) {
  for (std::int64_t images : {1, 3, 8, 15, 16, 17, 33}) {
    for (std::int64_t channels : {1, 2, 6, 11}) {
      for (std::int64_t outputs : {1, 3, 7, 13})
        compare_all({channels, outputs, images, {5, 6}, {3, 2}, {{0, 0}, {1, 1}}});
    }
  }
}

TEST(BatchLast, PaddingDilationAndWindows) {
  for (std::int64_t padding : {0, 1, 3}) {
    for (std::int64_t dilation : {1, 2}) {
      for (const Shape& window : {Shape{1, 1}, Shape{2, 1}, Shape{3, 2}, Shape{3, 3}}) {
        compare_all({3, 5, 19, {9, 11}, {3, 3}, {{padding, 1}, {dilation, 2}}, window});
      }
    }
  }
}

// The maxima of a convolution are those of its result, which the kernels of the single ops make.
TEST(BatchLast, FusedMaximaAreThoseOfTheSingleOps) {
  for (std::int64_t images : {5, 16, 40}) {
    const Sizes s{3, 7, images, {10, 11}, {3, 3}, {{1, 0}, {1, 1}}};
    std::mt19937 random(3);
    const Buffer x = random_buffer(f32(s.x()), random, -1, 1, 2), w = random_buffer(f32(s.w()), random, -1, 1, 2);
    const KernelRequest conv = request_of("conv_last", Attrs::of(s.attrs), {f32(s.x()), f32(s.w()), std::nullopt});
    const auto sums = run_kernel(tuned_backend(), conv, {x.get(), w.get(), nullptr});
    const KernelRequest pool = request_of("max_pool_last", Attrs::of(MaxPoolLastAttrs{s.window}), {f32(s.y())});
    const auto expected = run_kernel(tuned_backend(), pool, {sums[0].get()});
    const KernelRequest fused = request_of("conv_last_pool", Attrs::of(ConvLastPoolAttrs{s.attrs, s.window}),
                                           {f32(s.x()), f32(s.w()), std::nullopt});
    const auto actual = run_kernel(tuned_backend(), fused, {x.get(), w.get(), nullptr});
    for (std::size_t i : {0, 1}) expect_close(fused.outputs[i], expected[i], actual[i], 0, to_string(fused));
  }
}

TEST(BatchLast, NanWinsAndAmongEqualsTheFirst) {
  for (std::int64_t images : {4, 16, 21}) {
    const Shape shape{1, 4, 4, images};
    std::vector<float> x(static_cast<std::size_t>(numel(shape)), 1.0f);
    x[static_cast<std::size_t>(2 * images)] = x[static_cast<std::size_t>(7 * images + 1)] =
        std::numeric_limits<float>::quiet_NaN();
    const KernelRequest request = request_of("max_pool_last", Attrs::of(MaxPoolLastAttrs{{2, 2}}), {f32(shape)});
    const auto expected = run_kernel(*make_reference_backend(), request, {x.data()});
    const auto actual = run_kernel(tuned_backend(), request, {x.data()});
    for (std::size_t i : {0, 1}) expect_close(request.outputs[i], expected[i], actual[i], 0, to_string(request));
  }
}

TEST(BatchLast, ReluKeepsNan) {
  std::vector<float> x(32, -1.0f), w{1.0f};
  x[3] = std::numeric_limits<float>::quiet_NaN();
  for (const char* op : {"conv_last", "conv_last_pool"}) {
    const ConvLastAttrs attrs{{0, 0}, {1, 1}, true};
    const bool pools = std::string(op) == "conv_last_pool";
    const Attrs all = pools ? Attrs::of(ConvLastPoolAttrs{attrs, {1, 1}}) : Attrs::of(attrs);
    const KernelRequest request = request_of(op, all, {f32({1, 1, 2, 16}), f32({1, 1, 1, 1}), std::nullopt});
    const auto y = run_kernel(tuned_backend(), request, {x.data(), w.data(), nullptr});
    for (int i = 0; i < 32; ++i) {
      EXPECT_TRUE(i == 3 ? std::isnan(y[0].as<float>()[i]) : y[0].as<float>()[i] == 0) << op << " " << i;
    }
  }
}

}  // namespace
}  // namespace aspen::testing
