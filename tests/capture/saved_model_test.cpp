// Compiled models in files: save, compileAndExport, loadExecutable, load, and the cache of programs.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>

#include "error_of.h"
#include "tests/support/folder.h"

namespace {

namespace fs = std::filesystem;
using aspen::testing::Folder;
using poptorch::tests::error_of;

struct Net : torch::nn::Module {
  explicit Net(std::int64_t width = 4) : first(3, width), last(width, 1) {
    torch::manual_seed(1);
    first = torch::nn::Linear(3, width);
    last = torch::nn::Linear(width, 1);
    register_module("first", first);
    register_module("last", last);
    register_module("drop", drop);
  }
  std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, torch::Tensor y) {
    calls.add_(1);
    auto made = last(drop(torch::relu(first(x))));
    return {made, torch::mse_loss(made, y)};
  }
  torch::nn::Linear first, last;
  torch::nn::Dropout drop{0.5};
  torch::Tensor calls = register_buffer("calls", torch::zeros({1}));
};

// forward takes more than tensors.
struct Scaled : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x, double factor) { return x * factor; }
};

const torch::Tensor kX = torch::arange(24).view({8, 3}) / 10., kY = torch::arange(8).view({8, 1}) / 5.;

poptorch::Options seeded() {
  poptorch::Options options;
  options.randomSeed(7);
  return options;
}

auto trainer_of(const std::shared_ptr<Net>& net, const poptorch::Options& options = seeded()) {
  return poptorch::trainingModel(net, options, poptorch::optim::Adam(net->parameters(), {.lr = 0.1}));
}

template <class Trainer>
std::vector<float> losses(Trainer& trainer, int steps = 3) {
  std::vector<float> found;
  for (int step = 0; step < steps; ++step) found.push_back(std::get<1>(trainer(kX, kY)).template item<float>());
  return found;
}

TEST(SavedModel, ContinuesWhereItWasSaved) {
  const Folder folder;
  const auto net = std::make_shared<Net>();
  auto trainer = trainer_of(net);
  losses(trainer);
  trainer.save(folder.file());
  EXPECT_EQ(folder.size(), 1u);
  const auto other = std::make_shared<Net>();
  auto loaded = trainer_of(other);
  loaded.load(folder.file());
  EXPECT_TRUE(loaded.isCompiled());
  EXPECT_EQ(loaded.getTensorNames(), trainer.getTensorNames());
  EXPECT_EQ(loaded.randomState(), trainer.randomState());
  trainer.copyWeightsToHost();
  EXPECT_TRUE(torch::equal(other->first->weight, net->first->weight));  // before the first call
  EXPECT_TRUE(torch::equal(other->calls, torch::full({1}, 3.)));
  EXPECT_EQ(losses(loaded), losses(trainer));
}

TEST(SavedModel, AProgramWithoutItsStateBeginsAnew) {
  const Folder folder;
  auto trainer = trainer_of(std::make_shared<Net>());
  const auto first = losses(trainer);
  trainer.save(folder.file());
  auto fresh = trainer_of(std::make_shared<Net>());
  fresh.loadExecutable(folder.file());
  EXPECT_EQ(losses(fresh), first);
}

TEST(SavedModel, ExportsWithoutADevice) {
  const Folder folder;
  auto options = seeded();
  auto trainer = trainer_of(std::make_shared<Net>(), options.useOfflineIpuTarget());
  trainer.compileAndExport(folder.path.string(), kX, kY);
  EXPECT_FALSE(trainer.isAttachedToDevice());
  EXPECT_EQ(folder.size(), 1u);
  auto loaded = trainer_of(std::make_shared<Net>()), plain = trainer_of(std::make_shared<Net>());
  loaded.load(folder.file());
  EXPECT_EQ(losses(loaded), losses(plain));
}

TEST(SavedModel, TakesTheArgumentsOfAForwardThatHasMoreThanTensors) {
  const Folder folder;
  auto executor = poptorch::inferenceModel(std::make_shared<Scaled>());
  executor.compileAndExport(folder.file(), kX, 2.0);
  auto loaded = poptorch::inferenceModel(std::make_shared<Scaled>());
  loaded.loadExecutable(folder.file(), kX, 2.0);
  EXPECT_TRUE(torch::equal(loaded(kX, 2.0), kX * 2));
  auto other = poptorch::inferenceModel(std::make_shared<Scaled>());
  EXPECT_NE(error_of([&] { other.loadExecutable(folder.file(), kX, 3.0); }).find("program of another model"),
            std::string::npos);
}

// y = factor * x, by an operator of its own.
struct Doubled : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    return poptorch::customOp({x}, "Times", "saved_model_test", 1, {x},
                              {{"factor", 2.f}, {"notes", std::vector<std::string>{"a", "b"}}})[0];
  }
};

poptorch::CustomOp times() {
  poptorch::CustomOp op{.name = "Times", .domain = "saved_model_test"};
  op.kernel = [](const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs,
                 const poptorch::CustomOpAttributes& attributes) {
    EXPECT_EQ(attributes.get<std::vector<std::string>>("notes"), (std::vector<std::string>{"a", "b"}));
    outputs[0].copy_(inputs[0] * attributes.get<float>("factor"));
  };
  return op;
}

TEST(SavedModel, FindsOperatorsOfTheUsersOwnByTheirNames) {
  const Folder folder;
  auto loaded = poptorch::inferenceModel(std::make_shared<Doubled>());
  auto late = poptorch::inferenceModel(std::make_shared<Doubled>());
  {
    const poptorch::RegisteredCustomOp registered(times());
    auto executor = poptorch::inferenceModel(std::make_shared<Doubled>());
    executor.compileAndExport(folder.file(), kX);
    loaded.loadExecutable(folder.file());
    EXPECT_TRUE(torch::equal(loaded(kX), kX * 2));
  }
  EXPECT_NE(error_of([&] { late.loadExecutable(folder.file()); }).find("no such operator is registered"),
            std::string::npos);
}

TEST(SavedModel, RandomStateIsLeftOutIfAskedFor) {
  const Folder folder;
  auto trainer = trainer_of(std::make_shared<Net>());
  losses(trainer);
  trainer.save(folder.file(), false);
  auto loaded = trainer_of(std::make_shared<Net>());
  loaded.load(folder.file());
  EXPECT_EQ(loaded.randomState(), (poptorch::Executor::RandomState{7, 0}));
}

TEST(SavedModel, RefusalsNameTheFileAndWhatDiffers) {
  const Folder folder;
  auto trainer = trainer_of(std::make_shared<Net>());
  EXPECT_NE(error_of([&] { trainer.save(folder.file()); }).find("[save] the model is not compiled yet"),
            std::string::npos);
  trainer.compileAndExport(folder.file(), kX, kY);
  EXPECT_NE(error_of([&] { trainer.loadExecutable(folder.file()); }).find("compiled already"), std::string::npos);
  auto wide = trainer_of(std::make_shared<Net>(5));
  const std::string text = error_of([&] { wide.loadExecutable(folder.file()); });
  EXPECT_NE(text.find(folder.file()), std::string::npos) << text;
  EXPECT_NE(text.find("\"first.weight\" is a trainable parameter f32[4, 3] in its model"), std::string::npos) << text;
  auto fresh = trainer_of(std::make_shared<Net>());
  EXPECT_NE(error_of([&] { fresh.load(folder.file("missing")); }).find("No such file"), std::string::npos);
  std::ofstream(folder.file(), std::ios::app) << "more";
  EXPECT_NE(error_of([&] { fresh.load(folder.file()); }).find("cannot be used"), std::string::npos);
  EXPECT_NE(error_of([&] { trainer.save("/proc/model"); }).find("cannot write \"/proc/model\""), std::string::npos);
}

TEST(ExecutableCache, HoldsOneProgramForAllThatAreEqual) {
  const Folder folder;
  auto options = seeded();
  options.enableExecutableCaching((folder.path / "cache").string());
  auto first = trainer_of(std::make_shared<Net>(), options);
  const auto expected = losses(first);
  auto second = trainer_of(std::make_shared<Net>(), options);
  EXPECT_EQ(losses(second), expected);
  EXPECT_NE(error_of([&] { second.graphText(); }).find("comes from a file or the cache"), std::string::npos);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path / "cache"), fs::directory_iterator()), 1);
}

}  // namespace
