// Constants, types and questions about values while a model is captured.
#include "tests/capture/capture.h"

namespace poptorch {
namespace {

std::string error_of(const Function& function, const Tensors& inputs) {
  try {
    capture_and_run(function, inputs);
  } catch (const aspen::UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Values, ItemOfAnInputIsRefused) {
  const std::string text =
      error_of([](const Tensors& in) -> Tensors { return {in[0] * in[0].sum().item<float>()}; }, {torch::ones({2})});
  EXPECT_NE(text.find("[item]"), std::string::npos) << text;
  EXPECT_NE(text.find("return the tensor from forward"), std::string::npos) << text;
}

TEST(Values, MoveToTheHostIsRefused) {
  const std::string text = error_of([](const Tensors& in) -> Tensors { return {in[0].cpu()}; }, {torch::ones({2})});
  EXPECT_NE(text.find(".cpu()"), std::string::npos) << text;
}

TEST(Values, ItemOfAConstantIsItsValue) {
  expect_like_torch(
      [](const Tensors& in) -> Tensors {
        const auto ramp = torch::arange(4, in[0].options());
        return {in[0] + (ramp * 2).sum().item<double>()};
      },
      {torch::ones({2})});
}

TEST(Values, MaskOfAnInputIsRefused) {
  const std::string text =
      error_of([](const Tensors& in) -> Tensors { return {in[0].masked_select(in[0] > 0)}; }, {torch::ones({2})});
  EXPECT_NE(text.find("shape"), std::string::npos) << text;
  EXPECT_NE(text.find("torch.where"), std::string::npos) << text;
}

TEST(Values, MaskOfAConstantPicksRows) {
  expect_like_torch(
      [](const Tensors& in) -> Tensors {
        const auto ramp = torch::arange(4, in[0].options());
        return {in[0].index({ramp > 1})};
      },
      {torch::randn({4, 3})});
}

TEST(Values, HostConstantsAreFrozenAtTheirUse) {
  auto factor = torch::full({2}, 3.0);
  const auto captured = capture_and_run(
      [&](const Tensors& in) -> Tensors {
        auto first = in[0] * factor;
        factor.fill_(5);
        return {first, in[0] * factor};
      },
      {torch::ones({2})});
  expect_close(captured.outputs[0], torch::full({2}, 3.0), "before");
  expect_close(captured.outputs[1], torch::full({2}, 5.0), "after");
}

TEST(Values, ReturnedHostTensorStaysOnTheHost) {
  const auto captured = capture_and_run(
      [](const Tensors& in) -> Tensors {
        return {in[0] + 1, torch::ones({3})};
      },
      {torch::ones({2})});
  expect_close(captured.outputs[1], torch::ones({3}), "host");
}

TEST(Values, Int64ComesBackAsInt32) {
  const auto captured = capture_and_run(
      [](const Tensors& in) -> Tensors {
        EXPECT_EQ(in[0].argmax(0).scalar_type(), torch::kLong);  // while it is captured
        return {in[0].argmax(0)};
      },
      {torch::tensor({1.0, 3.0, 2.0})});
  EXPECT_EQ(captured.outputs[0].scalar_type(), torch::kInt);
  EXPECT_EQ(captured.outputs[0].item<int>(), 1);
}

TEST(Values, RandomOpsDrawAnewInEveryRun) {
  Model model(false);
  const auto outputs = model.capture([](const Tensors& in) -> Tensors { return {in[0] + torch::rand({100})}; },
                                     {torch::zeros({100})}, {"x"});
  model.compile({.seed = 3, .backend = "reference"});
  model.attach();
  const auto first = model.run({torch::zeros({100})}, 1, 1, {OutputRequest{}}, nullptr)[0];
  const auto second = model.run({torch::zeros({100})}, 1, 1, {OutputRequest{}}, nullptr)[0];
  EXPECT_FALSE(torch::equal(first, second));
  model.set_random_state(3, 0);
  EXPECT_TRUE(torch::equal(first, model.run({torch::zeros({100})}, 1, 1, {OutputRequest{}}, nullptr)[0]));
  EXPECT_GE(first.min().item<float>(), 0);
  EXPECT_LT(first.max().item<float>(), 1);
}

TEST(Values, EmptyInputIsRefused) {
  const std::string text = error_of([](const Tensors& in) -> Tensors { return {in[0] + 1}; }, {torch::zeros({0, 3})});
  EXPECT_NE(text.find("[0, 3]"), std::string::npos) << text;
}

TEST(Values, TensorKeptAfterCaptureIsRefused) {
  torch::Tensor kept;
  capture_and_run(
      [&](const Tensors& in) -> Tensors {
        kept = in[0] + 1;
        return {kept};
      },
      {torch::ones({2})});
  EXPECT_THROW(kept + 1, aspen::UserError);
}

TEST(Values, BFloat16IsATypeOfTheGraph) {
  const auto patterns = torch::arange(-32768, 32768, torch::kInt).to(torch::kShort).view(torch::kBFloat16);
  const auto captured = capture_and_run(
      [](const Tensors& in) -> Tensors {
        return {in[0].view({256, 256}).t().contiguous(), in[0].to(torch::kFloat)};
      },
      {patterns});
  EXPECT_EQ(captured.outputs[0].scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(
      torch::equal(captured.outputs[0].t().contiguous().view(torch::kShort).flatten(), patterns.view(torch::kShort)));
  EXPECT_TRUE(torch::equal(captured.outputs[1].nan_to_num(0, 1, 2), patterns.to(torch::kFloat).nan_to_num(0, 1, 2)));
}

}  // namespace
}  // namespace poptorch
