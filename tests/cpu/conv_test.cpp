#include "aspen/ops/conv/conv.h"

#include "aspen/ops/unary/unary.h"
#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

struct ConvCase {
  const char* name;
  Shape x, w;
  ConvAttrs attrs;
};

void PrintTo(const ConvCase& c, std::ostream* out) { *out << to_string(c.x) << " by " << to_string(c.w); }

Shape result_shape(const ConvCase& c) {
  Shape y{c.x[0], c.w[0]};
  for (std::size_t i = 0; i < c.attrs.stride.size(); ++i) {
    std::int64_t reach = c.attrs.dilation[i] * (c.w[i + 2] - 1) + 1;
    y.push_back((c.x[i + 2] + 2 * c.attrs.padding[i] - reach) / c.attrs.stride[i] + 1);
  }
  return y;
}

ConvAttrs plane(std::int64_t stride, std::int64_t padding, std::int64_t dilation = 1, std::int64_t groups = 1) {
  return {{stride, stride}, {padding, padding}, {dilation, dilation}, groups};
}

class Conv : public ::testing::TestWithParam<ConvCase> {};

TEST_P(Conv, ForwardMatchesTheReference) {
  const ConvCase& c = GetParam();
  compare("conv", Attrs::of(c.attrs), {f32(c.x), f32(c.w), std::nullopt});
  compare("conv", Attrs::of(c.attrs), {f32(c.x), f32(c.w), f32({c.w[0]})});
}

// x, w and what conv_affine does to their convolution.
InputTypes affine_inputs(const ConvCase& c) {
  Shape y = result_shape(c), channels(y.size(), 1);
  channels[1] = y[1];
  return {f32(c.x), f32(c.w), f32({c.w[0]}), f32(channels), f32(channels), f32(y)};
}

TEST_P(Conv, WithWhatFollowsMatchesTheReference) {
  const ConvCase& c = GetParam();
  InputTypes inputs = affine_inputs(c);
  compare("conv_affine", Attrs::of(ConvAffineAttrs{c.attrs, 0, 6}), inputs);
  for (std::size_t missing = 2; missing < inputs.size(); ++missing) {
    InputTypes others = inputs;
    others[missing].reset();
    compare("conv_affine", Attrs::of(ConvAffineAttrs{c.attrs, -0.5}), others);
  }
}

// As the pass that makes conv_affine promises.
TEST_P(Conv, WithWhatFollowsHasTheBitsOfTheOpsItStandsFor) {
  const ConvCase& c = GetParam();
  const InputTypes inputs = affine_inputs(c);
  std::mt19937 random(7);
  std::vector<Buffer> buffers;
  for (const auto& type : inputs) buffers.push_back(random_buffer(*type, random, -1, 1, 2));
  auto run = [](const char* op, const Attrs& attrs, const InputTypes& types, const std::vector<const void*>& pointers) {
    return std::move(run_kernel(tuned_backend(), request_of(op, attrs, types), pointers)[0]);
  };
  auto at = [&](std::size_t i) { return buffers[i].get(); };
  Buffer affine = run("conv_affine", Attrs::of(ConvAffineAttrs{c.attrs, -0.5, 1}), inputs,
                      {at(0), at(1), at(2), at(3), at(4), at(5)});
  const std::optional<TensorType>&y = inputs[5], &channels = inputs[3];
  Buffer conv = run("conv", Attrs::of(c.attrs), {inputs[0], inputs[1], inputs[2]}, {at(0), at(1), at(2)});
  Buffer scaled = run("mul", {}, {y, channels}, {conv.get(), at(3)});
  Buffer shifted = run("add", {}, {y, channels}, {scaled.get(), at(4)});
  Buffer sum = run("add", {}, {y, y}, {shifted.get(), at(5)});
  Buffer clamped = run("clamp", Attrs::of(ClampAttrs{-0.5, 1}), {y}, {sum.get()});
  expect_close(*y, clamped, affine, 0, "conv_affine");
}

TEST_P(Conv, InputGradientMatchesTheReference) {
  const ConvCase& c = GetParam();
  compare("conv_input_grad", Attrs::of(ConvGradAttrs{c.attrs, c.x}), {f32(result_shape(c)), f32(c.w)});
}

TEST_P(Conv, WeightGradientMatchesTheReference) {
  const ConvCase& c = GetParam();
  compare("conv_weight_grad", Attrs::of(ConvGradAttrs{c.attrs, c.w}), {f32(c.x), f32(result_shape(c))},
          {.tolerance = 1e-5});
}

TEST(ConvFloat, SumsOfProductsInBfloat16StayFloat) {
  const auto bf16 = [](const Shape& shape) { return TensorType{DType::kBF16, shape}; };
  for (const ConvCase& c : {ConvCase{"Padded", {2, 32, 14, 13}, {48, 32, 3, 3}, plane(1, 1)},
                            ConvCase{"Pointwise", {3, 64, 9, 9}, {32, 64, 1, 1}, plane(1, 0)},
                            ConvCase{"Strided", {4, 20, 15, 15}, {33, 20, 3, 3}, plane(2, 1)},
                            ConvCase{"Groups", {2, 64, 10, 10}, {64, 32, 3, 3}, plane(1, 1, 1, 2)},
                            ConvCase{"Axis", {2, 24, 70}, {40, 24, 5}, {{1}, {2}, {1}, 1}}}) {
    SCOPED_TRACE(c.name);
    const Attrs of_gradients[] = {Attrs::of(ConvGradAttrs{c.attrs, c.x}), Attrs::of(ConvGradAttrs{c.attrs, c.w})};
    const Shape y = result_shape(c);
    compare("conv_float", Attrs::of(c.attrs), {bf16(c.x), bf16(c.w), std::nullopt}, {.tolerance = 5e-6});
    compare("conv_float", Attrs::of(c.attrs), {bf16(c.x), bf16(c.w), f32({c.w[0]})}, {.tolerance = 5e-6});
    compare("conv_input_grad_float", of_gradients[0], {bf16(y), bf16(c.w)}, {.tolerance = 5e-6});
    compare("conv_weight_grad_float", of_gradients[1], {bf16(c.x), bf16(y)}, {.tolerance = 1e-5});
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Conv,
    ::testing::Values(
        ConvCase{"TutorialFirst", {16, 1, 28, 28}, {5, 1, 3, 3}, plane(1, 0)},
        ConvCase{"TutorialSecond", {16, 5, 13, 13}, {12, 5, 5, 5}, plane(1, 0)},
        ConvCase{"PipelineBatch40", {40, 10, 12, 12}, {20, 10, 5, 5}, plane(1, 0)},
        ConvCase{"PaddedLanes", {16, 3, 9, 11}, {7, 3, 3, 3}, plane(1, 1)},
        ConvCase{"StridedLanes", {31, 4, 10, 9}, {6, 4, 3, 3}, plane(2, 1)},
        ConvCase{"DilatedLanes", {14, 2, 11, 12}, {13, 2, 3, 3}, plane(1, 2, 2)},
        ConvCase{"UnevenKernel", {16, 2, 8, 9}, {5, 2, 2, 4}, {{1, 2}, {0, 3}, {2, 1}, 1}},
        ConvCase{"OneByOne", {16, 6, 7, 7}, {11, 6, 1, 1}, plane(1, 0)},
        ConvCase{"OneByOneManyChannels", {3, 70, 9, 11}, {53, 70, 1, 1}, plane(1, 0)},
        ConvCase{"OneByOneOnePixelMore", {2, 40, 7, 7}, {30, 40, 1, 1}, plane(1, 0)},
        ConvCase{"OneByOneTwoPixelsMore", {2, 21, 6, 3}, {11, 21, 1, 1}, plane(1, 0)},
        ConvCase{"OneByOneThreePixelsMore", {1, 35, 5, 7}, {21, 35, 1, 1}, plane(1, 0)},
        ConvCase{"OneByOneFourPixelsMore", {2, 33, 14, 14}, {50, 33, 1, 1}, plane(1, 0)},
        ConvCase{"OneByOneDeep", {1, 4100, 3, 3}, {5, 4100, 1, 1}, plane(1, 0)},
        ConvCase{"OneByOneLongRows", {1, 33, 40, 41}, {49, 33, 1, 1}, plane(1, 0)},
        ConvCase{"OneByOneStrided", {3, 20, 9, 12}, {17, 20, 1, 1}, {{2, 3}, {0, 0}, {1, 1}, 1}},
        ConvCase{"OneByOneGroups", {5, 12, 7, 7}, {18, 4, 1, 1}, plane(2, 0, 1, 3)},
        ConvCase{"OneByOneAxis", {2, 20, 33}, {17, 20, 1}, {{2}, {0}, {1}, 1}},
        ConvCase{"OneByOneVolume", {2, 8, 5, 6, 7}, {9, 8, 1, 1, 1}, {{2, 1, 3}, {0, 0, 0}, {1, 1, 1}, 1}},
        ConvCase{"OneAxis", {16, 3, 20}, {6, 3, 5}, {{2}, {2}, {1}, 1}},
        ConvCase{"SingleImage", {1, 3, 17, 17}, {10, 3, 3, 3}, plane(1, 1)},
        ConvCase{"ManyChannels", {2, 40, 9, 9}, {50, 40, 3, 3}, plane(1, 1)},
        ConvCase{"ManyChannelsStrided", {3, 64, 14, 14}, {32, 64, 3, 3}, plane(2, 1)},
        ConvCase{"WinogradOddExtents", {2, 32, 9, 11}, {35, 32, 3, 3}, plane(1, 1)},
        ConvCase{"WinogradWithoutPadding", {3, 33, 8, 7}, {32, 33, 3, 3}, plane(1, 0)},
        ConvCase{"WinogradWidePadding", {1, 40, 5, 12}, {48, 40, 3, 3}, {{1, 1}, {2, 1}, {1, 1}, 1}},
        ConvCase{"WinogradLongRows", {1, 32, 3, 301}, {32, 32, 3, 3}, plane(1, 1)},
        ConvCase{"WinogradManyImages", {37, 32, 5, 5}, {40, 32, 3, 3}, plane(1, 1)},
        ConvCase{"WinogradManyRows", {2, 32, 70, 20}, {96, 32, 3, 3}, plane(1, 1)},
        ConvCase{"WinogradOnePixel", {64, 40, 1, 1}, {32, 40, 3, 3}, plane(1, 1)},
        ConvCase{"PanelsOfPlanes", {1, 70, 5, 5}, {80, 70, 1, 1}, plane(1, 0)},
        ConvCase{"PanelsOfManyPlanes", {3, 65, 4, 7}, {144, 65, 1, 1}, plane(1, 0)},
        ConvCase{"PanelsOfTinyPlanes", {5, 100, 2, 2}, {48, 100, 1, 1}, plane(1, 0)},
        ConvCase{"PanelsStrided", {3, 20, 13, 12}, {32, 20, 3, 3}, plane(2, 1)},
        ConvCase{"PanelsOfTheStrided", {2, 80, 9, 8}, {16, 80, 1, 1}, {{3, 2}, {0, 0}, {1, 1}, 1}},
        ConvCase{"PanelsDeepAndFew", {1, 130, 2, 2}, {160, 130, 3, 3}, plane(1, 1)},
        ConvCase{"PanelsWidePadding", {2, 9, 3, 5}, {16, 9, 3, 4}, {{2, 3}, {4, 5}, {2, 3}, 1}},
        ConvCase{"PanelsOfAnAxis", {3, 30, 40}, {64, 30, 5}, {{3}, {2}, {2}, 1}},
        ConvCase{"FewPixels", {5, 40, 3, 4}, {50, 40, 3, 3}, plane(1, 1)},
        ConvCase{"FewPixelsStrided", {8, 150, 4, 4}, {70, 150, 3, 3}, plane(2, 1)},
        ConvCase{"FewPixelsOneByOne", {2, 130, 6, 6}, {60, 130, 1, 1}, plane(2, 0)},
        ConvCase{"FewPixelsDilated", {3, 30, 7, 7}, {40, 30, 3, 3}, {{2, 1}, {0, 1}, {2, 3}, 1}},
        ConvCase{"FewPixelsOfAnAxis", {3, 30, 9}, {40, 30, 3}, {{2}, {1}, {2}, 1}},
        ConvCase{"FewPixelsOfAVolume", {1, 18, 3, 4, 5}, {17, 18, 3, 2, 3}, {{2, 1, 2}, {1, 0, 1}, {1, 1, 1}, 1}},
        ConvCase{"Groups", {4, 12, 9, 9}, {18, 4, 3, 3}, plane(1, 1, 1, 3)},
        ConvCase{"Depthwise", {4, 24, 10, 10}, {24, 1, 3, 3}, plane(2, 1, 1, 24)},
        ConvCase{"DepthwiseSame", {2, 5, 23, 37}, {5, 1, 3, 3}, plane(1, 1, 1, 5)},
        ConvCase{"DepthwiseWide", {1, 3, 9, 150}, {3, 1, 5, 5}, plane(1, 2, 1, 3)},
        ConvCase{"DepthwiseNarrow", {3, 19, 7, 7}, {19, 1, 7, 7}, plane(1, 3, 1, 19)},
        ConvCase{"DepthwiseSmall", {3, 20, 7, 7}, {20, 1, 3, 3}, plane(1, 1, 1, 20)},
        ConvCase{"DepthwiseFifteen", {2, 5, 15, 15}, {5, 1, 3, 3}, plane(1, 1, 1, 5)},
        ConvCase{"DepthwiseSixteen", {2, 5, 9, 16}, {5, 1, 3, 3}, plane(1, 1, 1, 5)},
        ConvCase{"DepthwiseTall", {2, 3, 17, 3}, {3, 1, 3, 3}, plane(1, 1, 1, 3)},
        ConvCase{"DepthwiseOneRow", {2, 3, 1, 7}, {3, 1, 3, 3}, plane(1, 1, 1, 3)},
        ConvCase{"DepthwiseOneColumn", {2, 3, 9, 1}, {3, 1, 3, 3}, plane(1, 1, 1, 3)},
        ConvCase{"DepthwiseStrided", {2, 6, 29, 33}, {6, 1, 3, 5}, {{2, 3}, {1, 2}, {1, 1}, 6}},
        ConvCase{"DepthwiseDilated", {2, 6, 30, 31}, {6, 1, 3, 3}, {{2, 1}, {2, 3}, {3, 2}, 6}},
        ConvCase{"DepthwiseCropped", {2, 4, 9, 40}, {4, 1, 2, 2}, plane(2, 3, 1, 4)},
        ConvCase{"DepthwiseGaps", {2, 4, 20, 41}, {4, 1, 2, 2}, plane(4, 0, 1, 4)},
        ConvCase{"DepthwiseAxis", {2, 6, 75}, {6, 1, 31}, {{1}, {15}, {1}, 6}},
        ConvCase{"DepthwiseVolume", {2, 4, 5, 6, 7}, {4, 1, 3, 2, 3}, {{1, 1, 2}, {1, 0, 1}, {1, 1, 1}, 4}},
        ConvCase{"DepthwiseTwoOutputs", {2, 6, 10, 10}, {12, 1, 3, 3}, plane(1, 1, 1, 6)},
        ConvCase{"LargeAxis", {2, 20, 33}, {17, 20, 3}, {{1}, {1}, {2}, 1}},
        ConvCase{"ThreeAxes", {2, 17, 5, 6, 7}, {19, 17, 3, 2, 3}, {{1, 1, 2}, {1, 0, 1}, {1, 1, 1}, 1}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace aspen::testing
