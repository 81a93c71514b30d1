// Weights between executors and the module: nobody misses an update, whatever goes first.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <thread>

namespace {

// Each training step takes `lr` times 1 from the weight.
struct Falling : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    calls.add_(1);
    return poptorch::identityLoss((weight * x).sum(), poptorch::LossReduction::Sum);
  }
  torch::Tensor weight = register_parameter("weight", torch::zeros({1}));
  torch::Tensor calls = register_buffer("calls", torch::zeros({}));
};

const torch::Tensor kOne = torch::ones({1});

auto trainer_of(const std::shared_ptr<Falling>& module) {
  poptorch::optim::SGDOptions settings;
  settings.lr = 1;
  return poptorch::trainingModel(module, poptorch::Options(), poptorch::optim::SGD(module->parameters(), settings));
}

auto reader_of(const std::shared_ptr<Falling>& module) {
  return poptorch::inferenceModel(module, [module](const torch::Tensor& x) { return module->weight * x; });
}

float read(auto& reader) { return reader(kOne).template item<float>(); }

TEST(SharedWeights, InferenceFollowsTraining) {
  auto module = std::make_shared<Falling>();
  auto trainer = trainer_of(module);
  auto reader = reader_of(module);
  EXPECT_EQ(read(reader), 0);
  trainer(kOne);
  EXPECT_EQ(read(reader), -1);
  trainer(kOne);
  trainer(kOne);
  EXPECT_EQ(read(reader), -3);
  EXPECT_EQ(module->weight.item<float>(), -3);
  EXPECT_FALSE(trainer.copyWeightsToHostIfNeeded());
}

TEST(SharedWeights, OfATrainerThatCameLaterArriveWithTheNextUpload) {
  auto module = std::make_shared<Falling>();
  auto reader = reader_of(module);
  EXPECT_EQ(read(reader), 0);
  auto trainer = trainer_of(module);
  trainer(kOne);
  EXPECT_EQ(read(reader), 0);
  reader.copyWeightsToDevice();
  EXPECT_EQ(read(reader), -1);
}

TEST(SharedWeights, OfATrainerThatIsGone) {
  auto module = std::make_shared<Falling>();
  auto trainer = std::make_unique<decltype(trainer_of(module))>(trainer_of(module));
  auto reader = reader_of(module);
  (*trainer)(kOne);
  EXPECT_EQ(read(reader), -1);
  (*trainer)(kOne);
  trainer.reset();
  EXPECT_EQ(module->weight.item<float>(), -2);
  EXPECT_EQ(read(reader), -2);
}

TEST(SharedWeights, ComeBackInAnyOrder) {
  auto module = std::make_shared<Falling>();
  auto trainer = std::make_unique<decltype(trainer_of(module))>(trainer_of(module));
  auto reader = std::make_unique<decltype(reader_of(module))>(reader_of(module));
  (*trainer)(kOne);
  read(*reader);
  (*trainer)(kOne);
  reader.reset();
  trainer.reset();
  EXPECT_EQ(module->weight.item<float>(), -2);
  EXPECT_EQ(module->calls.item<float>(), 2);
  auto again = trainer_of(module);
  again(kOne);
  again = trainer_of(module);  // the old one goes after the new one came
  again(kOne);
  EXPECT_TRUE(again.copyWeightsToHostIfNeeded());
  EXPECT_EQ(module->weight.item<float>(), -4);
}

TEST(SharedWeights, AreTheHostsAfterDestroy) {
  auto module = std::make_shared<Falling>();
  auto trainer = trainer_of(module);
  trainer(kOne);
  trainer.destroy();
  EXPECT_FALSE(trainer.isCompiled());
  EXPECT_EQ(module->weight.item<float>(), -1);
  module->weight.detach().fill_(10);
  trainer(kOne);  // compiled anew, with what the host has now
  trainer.detachFromDevice();
  EXPECT_FALSE(trainer.isAttachedToDevice());
  EXPECT_EQ(module->weight.item<float>(), 9);
  trainer(kOne);
  EXPECT_TRUE(trainer.isAttachedToDevice());
  trainer.copyWeightsToHost();
  EXPECT_EQ(module->weight.item<float>(), 8);
  EXPECT_EQ(module->calls.item<float>(), 3);
}

TEST(SharedWeights, AReaderKeepsItsOwnBuffersWhenStrangersTrain) {
  auto mine = std::make_shared<Falling>();
  auto counter = poptorch::inferenceModel(mine, [mine](const torch::Tensor& x) {
    mine->calls.add_(1);
    return mine->calls * x;
  });
  EXPECT_EQ(counter(kOne).item<float>(), 1);
  auto strangers = std::make_shared<Falling>();
  auto trainer = trainer_of(strangers);
  trainer(kOne);
  EXPECT_EQ(counter(kOne).item<float>(), 2);
}

TEST(SharedWeights, ReadersInThreadsSeeWholeUpdates) {
  auto module = std::make_shared<Falling>();
  auto trainer = trainer_of(module);
  trainer(kOne);
  std::atomic<bool> is_over = false;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      auto reader = reader_of(module);
      for (float last = 0; !is_over;) {
        const float now = read(reader);
        if (now > last || now != std::floor(now)) ++wrong;
        last = now;
      }
    });
  }
  for (int step = 0; step < 200; ++step) trainer(kOne);
  is_over = true;
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
  trainer.copyWeightsToHost();
  EXPECT_EQ(module->weight.item<float>(), -201);
}

}  // namespace
