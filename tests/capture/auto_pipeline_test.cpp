// AutoPipeline, memory budgets and footprints from C++.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include <regex>

#include "error_of.h"

namespace {

using poptorch::AutoPipeline;
using poptorch::ExecutionStrategy;
using poptorch::Options;
using poptorch::PipelinedExecution;
using poptorch::tests::error_of;
using Tensors = std::vector<torch::Tensor>;

// Four layers; `cut`: of which the second half is in a block.
struct DeepImpl : torch::nn::Module {
  explicit DeepImpl(int blocks_at = -1) : cut(blocks_at) {
    for (int i = 0; i < 4; ++i) layers->push_back(torch::nn::Linear(32, 32));
    register_module("layers", layers);
  }
  torch::Tensor forward(torch::Tensor x, torch::Tensor target) {
    for (int i = 0; i < 4; ++i) {
      if (i == cut) poptorch::Block::start(1);
      x = torch::tanh(layers->at<torch::nn::LinearImpl>(static_cast<std::size_t>(i)).forward(x));
    }
    return torch::mse_loss(x, target);
  }
  int cut;
  torch::nn::ModuleList layers;
};

Options accumulating(const ExecutionStrategy& strategy, std::int64_t steps = 4) {
  Options options;
  options.Training.gradientAccumulation(steps);
  options.setExecutionStrategy(strategy);
  return options;
}

struct Trained {
  Tensors weights;
  std::string blocks;
  std::vector<poptorch::MemoryFootprint> memory;
};

Trained train(const Options& options, bool is_cut = false, int blocks_at = -1) {
  torch::manual_seed(3);
  auto net = std::make_shared<DeepImpl>(blocks_at);
  const auto x = torch::randn({16, 32}), target = torch::randn({16, 32});
  auto model = poptorch::trainingModel(net, options, poptorch::optim::AdamW(net->parameters()));
  for (int call = 0; call < 3; ++call) model(x, target);
  model.copyWeightsToHost();
  Trained result{{}, is_cut ? model.stageBlocks() : "", model.memoryFootprint()};
  for (const auto& parameter : net->parameters()) result.weights.push_back(parameter.detach().clone());
  return result;
}

void expect_equal(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::equal(a[i], b[i])) << i;
}

TEST(AutoPipelineInCpp, LearnsWhatOneDeviceLearnsAndTellsItsBlocks) {
  const Trained one = train(accumulating(PipelinedExecution()));
  const Trained cut = train(accumulating(AutoPipeline(2, /*measure=*/false)), true);
  expect_equal(one.weights, cut.weights);
  std::smatch layer;
  const std::regex line("poptorch::Block::start\\(1\\);  // before layers\\.([123]) is called\n");
  ASSERT_TRUE(std::regex_match(cut.blocks, layer, line)) << cut.blocks;
  EXPECT_EQ(cut.memory.size(), 2u);
  // The block it tells makes the same program.
  const Trained by_hand = train(accumulating(PipelinedExecution()), false, std::stoi(layer[1]));
  expect_equal(one.weights, by_hand.weights);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(by_hand.memory[i].total, cut.memory[i].total);
  expect_equal(one.weights, train(accumulating(AutoPipeline(2)), true).weights);
}

TEST(AutoPipelineInCpp, RefusesWhatItCannotDo) {
  EXPECT_NE(error_of([] { AutoPipeline(0); }).find("num_ipus is 0; expected 1 <= num_ipus <= 64"), std::string::npos);
  EXPECT_NE(error_of([] { train(accumulating(AutoPipeline(2)), false, 2); }).find("poptorch::PipelinedExecution"),
            std::string::npos);
  EXPECT_NE(
      error_of([] { train(accumulating(AutoPipeline(8), 16)); }).find("cannot be cut into 8 stages, at most into 4"),
      std::string::npos);
  EXPECT_NE(error_of([] { train(accumulating(PipelinedExecution()), true); }).find("poptorch::AutoPipeline(2)"),
            std::string::npos);
}

TEST(MemoryBudgetInCpp, IsKeptOrRefused) {
  const Trained free = train(accumulating(PipelinedExecution()));
  const auto needed = static_cast<std::int64_t>(free.memory[0].total);
  Options options = accumulating(PipelinedExecution()).setMemoryBudget(needed * 3 / 4);
  const std::string refusal = error_of([&] { train(options); });
  EXPECT_NE(refusal.find("setOptimizerLocation(poptorch::TensorLocationSettings().useOnChipStorage(false))"),
            std::string::npos)
      << refusal;
  const Trained fitted = train(options.setMemoryBudget(needed * 3 / 4, /*automatic=*/true));
  expect_equal(free.weights, fitted.weights);
  EXPECT_LE(static_cast<std::int64_t>(fitted.memory[0].total), needed * 3 / 4);
  EXPECT_EQ(static_cast<std::int64_t>(fitted.memory[0].budget), needed * 3 / 4);
  EXPECT_GT(fitted.memory[0].off_device, 0u);
}

TEST(MemoryBudgetInCpp, IsAnOptionLikeOthers) {
  const Options options = Options().setMemoryBudget("2M,IPU1=1K,auto");
  EXPECT_EQ(options.memoryBudget(), "2097152,IPU1=1024,auto");
  EXPECT_EQ(Options().fromJson(options.toJson()).memoryBudget(), options.memoryBudget());
  EXPECT_EQ(Options().memoryBudget(), std::nullopt);
  EXPECT_NE(error_of<poptorch::ValueError>([] { Options().setMemoryBudget("2X"); }).find("\"2X\" is no memory budget"),
            std::string::npos);
}

}  // namespace
