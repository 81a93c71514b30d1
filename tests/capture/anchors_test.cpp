// Tensors inside a model, from C++: names and anchors.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include <algorithm>

#include "error_of.h"

namespace {

using poptorch::OutputMode;
using poptorch::tests::error_of;

struct Net : torch::nn::Module {
  Net() { register_module("fc", fc); }
  std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, torch::Tensor y) {
    auto z = fc(x);
    return {z, torch::mse_loss(z, y)};
  }
  torch::nn::Linear fc{3, 2};
};

auto trainer(const std::shared_ptr<Net>& model, const poptorch::Options& options) {
  poptorch::optim::SGDOptions sgd;
  sgd.lr = 0.5;
  return poptorch::trainingModel(model, options, poptorch::optim::SGD(model->parameters(), sgd));
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

TEST(TensorNames, AreThoseOfInputsParametersGradientsUpdatesAndTheLoss) {
  auto model = std::make_shared<Net>();
  auto executor = trainer(model, {});
  executor.compile(torch::zeros({2, 3}), torch::zeros({2, 2}));
  const auto names = executor.getTensorNames();
  for (const char* name : {"input0", "input1", "fc.weight", "fc.bias", "Gradient___fc.weight", "UpdatedVar___fc.bias",
                           "loss", "scaledLearningRate0___specific___fc.weight"}) {
    EXPECT_TRUE(has(names, name)) << name;
  }
}

TEST(AnchoredTensors, HaveTheGradientAndTheUpdatedParameterOfTorch) {
  auto model = std::make_shared<Net>();
  poptorch::Options options;
  options.anchorTensor("gradient", "Gradient___fc.weight").anchorTensor("updated", "UpdatedVar___fc.weight");
  const auto before = model->fc->weight.detach().clone(), bias = model->fc->bias.detach().clone();
  const auto x = torch::randn({4, 3}), y = torch::randn({4, 2});
  auto executor = trainer(model, options);
  EXPECT_NE(error_of([&] { executor.getAnchoredTensor("gradient"); }).find("has not run"), std::string::npos);
  executor(x, y);
  auto weight = before.clone().requires_grad_();
  torch::mse_loss(torch::nn::functional::linear(x, weight, bias), y).backward();
  const auto gradient = executor.getAnchoredTensor("gradient");
  EXPECT_TRUE(torch::allclose(gradient, weight.grad(), 1e-5, 1e-6));
  EXPECT_TRUE(torch::allclose(executor.getAnchoredTensor("updated"), before - 0.5 * gradient));
  executor.getAnchoredTensor("gradient").zero_();
  EXPECT_TRUE(torch::equal(executor.getAnchoredTensor("gradient"), gradient));
  EXPECT_EQ(error_of<poptorch::ArgumentError>([&] { executor.getAnchoredTensor("loss"); }),
            "No tensor was anchored as \"loss\" with options.anchorTensor");
}

TEST(AnchoredTensors, HaveAModeOfTheirOwn) {
  auto model = std::make_shared<Net>();
  poptorch::Options options;
  options.deviceIterations(4).anchorTensor("all", "Gradient___fc.bias", OutputMode::All);
  options.anchorTensor("second", "Gradient___fc.bias", OutputMode::EveryN, 2)
      .anchorTensor("final", "Gradient___fc.bias");
  auto executor = trainer(model, options);
  executor(torch::randn({8, 3}), torch::randn({8, 2}));
  const auto all = executor.getAnchoredTensor("all").view({4, 2});
  EXPECT_TRUE(torch::equal(executor.getAnchoredTensor("second").view({2, 2}), torch::stack({all[1], all[3]})));
  EXPECT_TRUE(torch::equal(executor.getAnchoredTensor("final"), all[3]));
}

}  // namespace
