// The public C++ API on several virtual IPUs: blocks, strategies, replicas.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include "error_of.h"

namespace {

using poptorch::ExecutionStrategy;
using poptorch::Options;
using poptorch::PipelinedExecution;
using poptorch::ShardedExecution;
using poptorch::Stage;
using Tensors = std::vector<torch::Tensor>;

// Two layers in the blocks "first" and "second".
struct TwoImpl : torch::nn::Module {
  TwoImpl() {
    register_module("a", a);
    register_module("b", b);
  }
  torch::Tensor forward(torch::Tensor x, torch::Tensor target) {
    {
      const poptorch::Block block("first", 0);
      x = torch::tanh(a(x));
    }
    const poptorch::Block block("second", 1);
    return torch::mse_loss(b(x), target);
  }
  torch::nn::Linear a{6, 5}, b{5, 3};
};

std::shared_ptr<TwoImpl> make_two() {
  torch::manual_seed(7);
  return std::make_shared<TwoImpl>();
}

// The weights after three calls.
Tensors train(const Options& options, const torch::Tensor& x, const torch::Tensor& target) {
  auto net = make_two();
  auto model = poptorch::trainingModel(net, options, poptorch::optim::AdamW(net->parameters()));
  for (int call = 0; call < 3; ++call) model(x, target);
  model.copyWeightsToHost();
  Tensors weights;
  for (const auto& parameter : net->parameters()) weights.push_back(parameter.detach().clone());
  return weights;
}

Options accumulating(std::int64_t steps) {
  Options options;
  options.Training.gradientAccumulation(steps);
  return options;
}

using poptorch::tests::error_of;

std::string error_of_forward(const std::function<Tensors(const Tensors&)>& forward, const Options& options = {}) {
  return error_of([&] { poptorch::inferenceModel(make_two(), forward, options)(torch::ones({4, 6})); });
}

TEST(Devices, PipelinedAndShardedLearnWhatOneDeviceLearns) {
  const auto x = torch::randn({2 * 4 * 3, 6}), target = torch::randn({2 * 4 * 3, 3});
  const auto run = [&](const ExecutionStrategy& strategy) {
    return train(accumulating(4).deviceIterations(2).setExecutionStrategy(strategy), x, target);
  };
  const Tensors one = run(ShardedExecution({Stage{"first", "second"}.ipu(0)}));
  for (const Tensors& learnt : {run(PipelinedExecution()), run(ShardedExecution())}) {
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::equal(one[i], learnt[i])) << i;
  }
}

TEST(Devices, ReplicasShareABatch) {
  const auto x = torch::randn({12, 6}), target = torch::randn({12, 3});
  const ShardedExecution together({Stage{"first", "second"}.ipu(0)});
  const Tensors one = train(Options().setExecutionStrategy(together), x, target);
  const Tensors four = train(Options().setExecutionStrategy(together).replicationFactor(4), x, target);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::allclose(one[i], four[i], 1e-5, 1e-6)) << i;
}

TEST(Devices, OutputsHaveABlockPerReplica) {
  const auto forward = [](const Tensors& in) -> Tensors { return {in[0] * 2, in[0].sum()}; };
  auto model = poptorch::inferenceModel(make_two(), forward, Options().replicationFactor(2).deviceIterations(3));
  const auto x = torch::randn({12, 6});
  const auto results = model(x);
  EXPECT_TRUE(torch::equal(results[0], x * 2));
  EXPECT_TRUE(torch::allclose(results[1], x.view({6, -1}).sum(1), 1e-5, 1e-5));
}

TEST(Devices, OpAfterABlockIsAnError) {
  const std::string text = error_of_forward([](const Tensors& in) -> Tensors {
    torch::Tensor y;
    {
      const poptorch::Block block("first", 0);
      y = in[0] + 1;
    }
    return {y * 2};
  });
  EXPECT_NE(text.find("[aten::mul.Scalar] No active Block"), std::string::npos) << text;
}

TEST(Devices, StagesAreCountedFromIpu0) {
  const auto forward = [](const Tensors& in) -> Tensors {
    poptorch::Block::start(1);
    const auto x = in[0] + 1;
    poptorch::Block::start(2);
    return {x * 2};
  };
  const auto text = error_of_forward(forward, Options().autoRoundNumIPUs(true).deviceIterations(2));
  EXPECT_NE(text.find("inference over 3 pipeline stages"), std::string::npos) << text;
  EXPECT_EQ(error_of_forward(forward, Options().autoRoundNumIPUs(true).deviceIterations(4)), "no error");
}

TEST(Devices, NumberOfIpusIsChecked) {
  const auto on = [](std::int64_t ipu) {
    return [ipu](const Tensors& in) -> Tensors {
      const poptorch::Block block(ipu);
      return {in[0] + 1};
    };
  };
  EXPECT_NE(error_of_forward(on(64)).find("Too many IPUs"), std::string::npos);
  EXPECT_NE(error_of_forward(on(2)).find("powers of two"), std::string::npos);
  EXPECT_EQ(error_of_forward(on(2), Options().autoRoundNumIPUs(true)), "no error");
}

}  // namespace
