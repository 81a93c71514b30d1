// batch_norm and what fuse_batch_norms makes of it, beside the reference and beside the ops it stands for.
#include "aspen/ops/batch_norm/batch_norm.h"

#include <limits>

#include "aspen/ops/unary/unary.h"
#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Planes of one vector and more, with and without a rest, few and many images; columns.
const std::vector<Shape> kShapes{{2, 3, 7, 7}, {5, 4, 16}, {3, 5, 100, 90}, {40, 6, 3},
                                 {2, 2, 9001}, {33, 70},   {300, 5}};

Shape channels_of(const Shape& x) {
  Shape shape(x.size(), 1);
  shape[1] = x[1];
  return shape;
}

const BoundedBatchNormAttrs kRelu{.low = 0, .open = true}, kRelu6{.low = 0, .high = 6, .open = true};
const BoundedBatchNormAttrs kClosed{.low = -0.25, .high = 0.5}, kUnbounded{};

TEST(BatchNorm, OfEveryShapeMatchesTheReference) {
  for (const Shape& x : kShapes) {
    const TensorType c = f32(channels_of(x));
    const CompareOptions far{.tolerance = 1e-5, .low = 2, .high = 4};
    compare("batch_norm", Attrs::of(BatchNormAttrs{}), {f32(x), c, c}, far);
    compare("batch_norm", Attrs::of(BatchNormAttrs{}), {f32(x), std::nullopt, std::nullopt}, far);
    for (const auto& attrs : {kRelu, kClosed, kUnbounded}) {
      compare("batch_norm_bounded", Attrs::of(attrs), {f32(x), c, c, f32(x)}, {.tolerance = 1e-5});
      compare("batch_norm_bounded", Attrs::of(attrs), {f32(x), c, std::nullopt, std::nullopt}, {.tolerance = 1e-5});
    }
  }
}

TEST(BatchNorm, GradientMatchesTheReference) {
  for (const Shape& x : kShapes) {
    const TensorType c = f32(channels_of(x));
    for (const auto& attrs : {kRelu, kRelu6, kClosed, kUnbounded}) {
      compare("batch_norm_grad", Attrs::of(attrs), {f32(x), c, c, c, c, f32(x)}, {.tolerance = 2e-5});
    }
  }
}

// A first image that is far from the others must not cost the variance its digits.
TEST(BatchNorm, FindsTheVarianceWhereTheFirstImageIsFarOff) {
  constexpr std::int64_t kImages = 500, kSize = 9;
  std::vector<float> x(static_cast<std::size_t>(kImages * kSize));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = i < kSize ? 3000.0f : static_cast<float>(i % 7);
  KernelRequest request =
      request_of("batch_norm", Attrs::of(BatchNormAttrs{0}), {f32({kImages, 1, kSize}), std::nullopt, std::nullopt});
  auto reference = make_reference_backend();
  auto expected = run_kernel(*reference, request, {x.data(), nullptr, nullptr});
  auto actual = run_kernel(tuned_backend(), request, {x.data(), nullptr, nullptr});
  const double mean = *expected[1].as<float>(), rstd = *expected[2].as<float>();
  EXPECT_NEAR(*actual[1].as<float>(), mean, 1e-6 / rstd);
  EXPECT_NEAR(*actual[2].as<float>(), rstd, 5e-6 * rstd);
}

// What fuse_batch_norms promises, kernel by kernel.
class FusedBatchNorm : public ::testing::TestWithParam<const char*> {
 protected:
  std::vector<Buffer> run(const std::string& op, const Attrs& attrs, const InputTypes& types,
                          const std::vector<const void*>& inputs) const {
    static const auto reference = make_reference_backend();
    const KernelRequest request = request_of(op, attrs, types);
    return GetParam() == std::string("cpu") ? run_kernel(tuned_backend(), request, inputs)
                                            : run_kernel(*reference, request, inputs);
  }
};

TEST_P(FusedBatchNorm, HasTheBitsOfTheOpsItStandsFor) {
  for (const Shape& shape : kShapes) {
    const TensorType x = f32(shape), c = f32(channels_of(shape));
    std::mt19937 random(7);
    Buffer data = random_buffer(x, random, -2, 2, 2), other = random_buffer(x, random, -2, 2, 2);
    Buffer scale = random_buffer(c, random, 0.5, 4, 2), shift = random_buffer(c, random, -1, 1, 2);
    Buffer g = random_buffer(x, random, -1, 1, 2);
    for (const auto& attrs : {kRelu, kRelu6, kClosed}) {
      const bool is_relu = attrs.high == kInfinity;
      const Attrs clamp = is_relu ? Attrs{} : Attrs::of(ClampAttrs{attrs.low, attrs.high, attrs.open});
      auto norm = run("batch_norm", Attrs::of(attrs.norm), {x, c, c}, {data.get(), scale.get(), shift.get()});
      auto bounded = run(is_relu ? "relu" : "clamp", clamp, {x}, {norm[0].get()});
      auto fused = run("batch_norm_bounded", Attrs::of(attrs), {x, c, c, std::nullopt},
                       {data.get(), scale.get(), shift.get(), nullptr});
      expect_close(x, bounded[0], fused[0], 0, "batch_norm_bounded");

      auto sum = run("add", {}, {x, x}, {norm[0].get(), other.get()});
      auto bounded_sum = run(is_relu ? "relu" : "clamp", clamp, {x}, {sum[0].get()});
      auto fused_sum = run("batch_norm_bounded", Attrs::of(attrs), {x, c, c, x},
                           {data.get(), scale.get(), shift.get(), other.get()});
      expect_close(x, bounded_sum[0], fused_sum[0], 0, "batch_norm_bounded with another");

      auto mask = run(is_relu ? "relu_grad" : "clamp_grad", clamp, {x, x},
                      {is_relu ? bounded[0].get() : norm[0].get(), g.get()});
      const std::vector<const void*> operands{data.get(), scale.get(), shift.get(), norm[1].get(), norm[2].get()};
      auto with = [&](const void* gradient) {
        auto all = operands;
        all.push_back(gradient);
        return all;
      };
      auto apart = run("batch_norm_grad", Attrs::of(kUnbounded), {x, c, c, c, c, x}, with(mask[0].get()));
      auto together = run("batch_norm_grad", Attrs::of(attrs), {x, c, c, c, c, x}, with(g.get()));
      for (std::size_t i = 0; i < 3; ++i) expect_close(i == 0 ? x : c, apart[i], together[i], 0, "batch_norm_grad");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, FusedBatchNorm, ::testing::Values("cpu", "reference"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace aspen::testing
