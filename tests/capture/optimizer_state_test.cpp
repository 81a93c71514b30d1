// State of poptorch::optim: saved, loaded, read between calls and copied.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "error_of.h"
#include "small_net.h"

namespace {

namespace optim = poptorch::optim;
using namespace poptorch::tests;  // NOLINT: what these tests share

using Make = std::function<optim::Optimizer(Net&, double)>;

const std::map<std::string, Make> kMakers{
    {"SGD", [](Net& net, double lr) { return optim::SGD(net.parameters(), {.lr = lr}); }},
    {"SGD with momentum",
     [](Net& net, double lr) {
       return optim::SGD(net.parameters(),
                         {.lr = lr, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.01, .loss_scaling = 4});
     }},
    {"Adam",
     [](Net& net, double lr) {
       return optim::Adam(net.parameters(), {.lr = lr, .betas = {{0.8, 0.99}}, .eps = 1e-6, .weight_decay = 0.01});
     }},
    {"AdamW", [](Net& net, double lr) { return optim::AdamW(net.parameters(), {.lr = lr, .loss_scaling = 2}); }},
    {"RMSprop",
     [](Net& net, double lr) { return optim::RMSprop(net.parameters(), {.lr = lr, .alpha = 0.9, .momentum = 0.5}); }},
    {"LAMB", [](Net& net, double lr) { return optim::LAMB(net.parameters(), {.lr = lr, .max_weight_norm = 10}); }},
};

void set_weights(Net& net, const std::map<std::string, torch::Tensor>& values) {
  const torch::NoGradGuard no_grad;
  for (auto& entry : net.named_parameters()) entry.value().copy_(values.at(entry.key()));
}

void expect_equal_weights(Net& net, Net& wanted) {
  const auto expected = weights(wanted);
  for (const auto& [name, value] : weights(net)) EXPECT_TRUE(torch::equal(value, expected.at(name))) << name;
}

class OptimizerState : public testing::TestWithParam<std::string> {};

TEST_P(OptimizerState, ContinuesBitForBitFromAFile) {
  const Make& make = kMakers.at(GetParam());
  const auto data = batches();
  const std::vector<Batch> begin(data.begin(), data.begin() + 5), rest(data.begin() + 5, data.end());
  auto straight = make_net();
  {
    auto executor = poptorch::trainingModel(straight, poptorch::Options(), make(*straight, 0.03));
    train(executor, data);
  }

  const auto file = std::filesystem::temp_directory_path() / ("optimizer_" + GetParam() + ".pt");
  auto net = make_net();
  {
    const optim::Optimizer optimizer = make(*net, 0.03);
    EXPECT_FALSE(optimizer.stateDict().ipu_state);
    {
      auto executor = poptorch::trainingModel(net, poptorch::Options(), optimizer);
      train(executor, begin);
    }
    optimizer.stateDict().save(file.string());  // the executor is gone, the state is not
  }

  auto resumed = make_net();
  set_weights(*resumed, weights(*net));
  optim::Optimizer optimizer = make(*resumed, 0.5);
  optimizer.loadStateDict(optim::StateDict::load(file.string()));
  std::filesystem::remove(file);
  EXPECT_EQ(optimizer.groups()[0].lr, 0.03);
  {
    auto executor = poptorch::trainingModel(resumed, poptorch::Options(), optimizer);
    train(executor, rest);
  }
  expect_equal_weights(*resumed, *straight);
}

TEST_P(OptimizerState, IsLoadedIntoARunningProgram) {
  const Make& make = kMakers.at(GetParam());
  const auto data = batches();
  const std::vector<Batch> begin(data.begin(), data.begin() + 5), rest(data.begin() + 5, data.end());
  auto net = make_net();
  const optim::Optimizer optimizer = make(*net, 0.03);
  auto executor = poptorch::trainingModel(net, poptorch::Options(), optimizer);
  train(executor, begin);
  const optim::StateDict saved = optimizer.stateDict();
  executor.copyWeightsToHost();
  const auto saved_weights = weights(*net);
  train(executor, rest);
  executor.copyWeightsToHost();

  auto other = make_net();
  optim::Optimizer other_optimizer = make(*other, 0.5);
  auto resumed = poptorch::trainingModel(other, poptorch::Options(), other_optimizer);
  train(resumed, begin);  // compiled, and trained with another learning rate
  resumed.copyWeightsToHost();
  set_weights(*other, saved_weights);
  resumed.copyWeightsToDevice();
  other_optimizer.loadStateDict(saved);
  EXPECT_EQ(other_optimizer.stateDict().ipu_param->size(), saved.ipu_param->size());
  train(resumed, rest);
  resumed.copyWeightsToHost();
  expect_equal_weights(*other, *net);
  const optim::StateDict mine = other_optimizer.stateDict(), wanted = optimizer.stateDict();
  for (const auto& [name, value] : *wanted.ipu_state)
    EXPECT_TRUE(torch::equal(mine.ipu_state->at(name), value)) << name;
  for (const auto& [name, value] : *wanted.ipu_param)
    EXPECT_TRUE(torch::equal(mine.ipu_param->at(name), value)) << name;
}

INSTANTIATE_TEST_SUITE_P(Kinds, OptimizerState,
                         testing::Values("SGD", "SGD with momentum", "Adam", "AdamW", "RMSprop", "LAMB"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, ' ');
                           return name;
                         });

TEST(Optimizer, StateHasTheNamesAndValuesOfTheDevice) {
  auto net = make_net();
  const optim::SGD optimizer(net->parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.5, .loss_scaling = 2});
  auto executor = poptorch::trainingModel(net, poptorch::Options(), optimizer);
  train(executor, batches(1));
  const optim::StateDict state = optimizer.stateDict();
  EXPECT_EQ(state.ipu_state->at("Accl1___first.weight").sizes(), (std::vector<std::int64_t>{6, 4}));
  EXPECT_FLOAT_EQ(state.ipu_param->at("scaledLearningRate0___specific___second.bias").item<float>(), 0.05F);
  EXPECT_FLOAT_EQ(state.ipu_param->at("weightDecayScaleFactor0___specific___second.bias").item<float>(), 0.95F);
  EXPECT_EQ(state.ipu_param->at("lossScaling_FLOAT").item<float>(), 2);
}

TEST(Optimizer, NumbersBeyondFloatAreInfiniteOnTheDevice) {
  auto net = make_net();
  const optim::SGD optimizer(net->parameters(), {.lr = 0.1, .loss_scaling = 1e-42});
  auto executor = poptorch::trainingModel(net, poptorch::Options(), optimizer);
  train(executor, batches(1));
  const optim::StateDict state = optimizer.stateDict();
  EXPECT_TRUE(std::isinf(state.ipu_param->at("scaledLearningRate0___specific___second.bias").item<float>()));
}

TEST(Optimizer, EachParameterGetsTheNumbersLoadedForIt) {
  auto net = make_net();
  optim::SGD optimizer(net->parameters(), {.lr = 0.1});
  auto executor = poptorch::trainingModel(net, poptorch::Options(), optimizer);
  train(executor, batches(1));
  optim::StateDict state = optimizer.stateDict();
  state.ipu_param->at("scaledLearningRate0___specific___first.weight").fill_(0);
  state.ipu_param->erase("scaledLearningRate0___specific___first.bias");
  optimizer.loadStateDict(state);
  executor.copyWeightsToHost();
  const auto before = weights(*net);
  testing::internal::CaptureStderr();
  train(executor, batches(1));
  EXPECT_NE(testing::internal::GetCapturedStderr().find(
                "The loaded optimiser state has no scaledLearningRate0___specific___first.bias"),
            std::string::npos);
  executor.copyWeightsToHost();
  for (const auto& [name, value] : weights(*net)) {
    EXPECT_EQ(torch::equal(value, before.at(name)), name == "first.weight") << name;
  }
}

TEST(Optimizer, StateIsReadBetweenTheCallsOfAnotherThread) {
  auto net = make_net();
  const optim::Adam optimizer(net->parameters(), {.lr = 0.01});
  auto executor = poptorch::trainingModel(net, poptorch::Options(), optimizer);
  train(executor, batches(1));
  std::atomic<bool> is_done = false;
  std::thread trainer([&, data = batches(100)] {
    train(executor, data);
    is_done = true;
  });
  std::size_t mixed = 0;
  while (!is_done) {
    std::set<float> steps;
    const optim::StateDict state = optimizer.stateDict();
    for (const auto& [name, value] : *state.ipu_state) {
      if (name.starts_with("Step___")) steps.insert(value.item<float>());
    }
    mixed += steps.size() != 1;
  }
  trainer.join();
  EXPECT_EQ(mixed, 0);
  EXPECT_EQ(optimizer.stateDict().ipu_state->at("Step___first.bias").item<float>(), 101);
}

TEST(Optimizer, StateOfAnotherIsRefused) {
  auto net = make_net();
  optim::SGD optimizer(net->parameters());
  EXPECT_NE(error_of([&] { optimizer.loadStateDict({}); }).find("empty"), std::string::npos);
  EXPECT_NE(error_of([&] {
              optimizer.loadStateDict(optim::Adam(net->parameters()).stateDict());
            }).find("the state is that of an optimiser of kind adam, but this one is of kind sgd"),
            std::string::npos);
  EXPECT_THROW(optimizer.loadStateDict(optim::SGD(net->first->parameters()).stateDict()), poptorch::ValueError);
  EXPECT_NE(error_of([&] { optim::StateDict::load("/no/such/file"); }).find("could not be read"), std::string::npos);
}

TEST(Optimizer, ACopyHasTheStateAndGoesItsOwnWay) {
  auto net = make_net();
  optim::Adam optimizer(net->parameters(), {.lr = 0.1});
  auto executor = poptorch::trainingModel(net, poptorch::Options(), optimizer);
  train(executor, batches(1));
  optim::Adam copy = optimizer;  // NOLINT: what this is about
  train(executor, batches(2));
  EXPECT_EQ(copy.stateDict().ipu_state->at("Step___first.bias").item<float>(), 1);
  EXPECT_EQ(optimizer.stateDict().ipu_state->at("Step___first.bias").item<float>(), 3);
  executor.setOptimizer(copy);  // its own state goes to the device; the other one keeps what it has
  train(executor, batches(1));
  EXPECT_EQ(copy.stateDict().ipu_state->at("Step___first.bias").item<float>(), 2);
  EXPECT_EQ(optimizer.stateDict().ipu_state->at("Step___first.bias").item<float>(), 3);
}

}  // namespace
