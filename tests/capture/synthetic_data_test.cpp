// Synthetic data, from C++.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/torch.h>

namespace {

struct Net : torch::nn::Module {
  Net() { register_module("fc", fc); }
  std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, torch::Tensor y) {
    auto z = fc(x);
    return {z, torch::mse_loss(z, y)};
  }
  torch::nn::Linear fc{3, 2};
};

TEST(SyntheticData, TransfersNothing) {
  auto model = std::make_shared<Net>();
  const auto before = model->fc->weight.detach().clone();
  auto executor = poptorch::trainingModel(model, poptorch::Options().enableSyntheticData(true),
                                          poptorch::optim::SGD(model->parameters(), {.lr = 0.5}));
  const auto [z, loss] = executor(torch::zeros({2, 3}), torch::zeros({2, 2}));
  EXPECT_EQ(z.sizes(), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(executor.getPerfCounters().input, poptorch::PerfCounters::Times(2));
  EXPECT_EQ(executor.getPerfCounters().output_complete, poptorch::PerfCounters::Times(2));
  EXPECT_EQ(executor.getLatency().maximum, 0);
  executor.copyWeightsToHost();
  EXPECT_FALSE(torch::equal(model->fc->weight.detach(), before));
}

}  // namespace
