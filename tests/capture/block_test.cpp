// Blocks of the public C++ API: which device and stage every op of a forward gets; other marks in a forward.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include <regex>
#include <sstream>

#include "error_of.h"
#include "poptorch/api/capture_context.h"
#include "poptorch/model/model.h"

namespace {

using poptorch::AutoStage;
using poptorch::BeginBlock;
using poptorch::Block;
using poptorch::ExecutionStrategy;
using poptorch::PipelinedExecution;
using poptorch::ShardedExecution;
using Tensors = std::vector<torch::Tensor>;
using Forward = std::function<torch::Tensor(torch::Tensor)>;

std::string graph_of(const Forward& forward, const ExecutionStrategy& strategy = PipelinedExecution()) {
  poptorch::Model model(/*training=*/false);
  const poptorch::CaptureContext context({.strategy = strategy}, model);
  model.capture([&](const Tensors& in) { return Tensors{forward(in[0])}; }, {torch::ones({4, 3})}, {"x"});
  return model.graph_text();
}

// "relu 0 0, tanh 1 2": device and stage of each op.
std::string places(const Forward& forward, const ExecutionStrategy& strategy = PipelinedExecution()) {
  std::istringstream lines(graph_of(forward, strategy));
  std::string found, line;
  while (std::getline(lines, line)) {
    std::smatch op, number;
    if (!std::regex_search(line, op, std::regex("= (relu|tanh|sigmoid|exp|sin)\\b"))) continue;
    found += (found.empty() ? "" : ", ") + op[1].str();
    for (const char* kind : {"device", "stage"}) {
      found += std::regex_search(line, number, std::regex(std::string("\\b") + kind + " (\\d+)"))
                   ? " " + number[1].str()
                   : " 0";
    }
  }
  return found;
}

using poptorch::tests::error_of;

TEST(Block, PlacesItsOps) {
  EXPECT_EQ(places([](torch::Tensor x) {
              x = torch::relu(x);
              {
                const Block block("a", 1);
                x = torch::tanh(x);
              }
              const Block block(2);
              return torch::sigmoid(x);
            }),
            "relu 0 0, tanh 1 1, sigmoid 2 2");
}

TEST(Block, WithoutANameIsNumbered) {
  const auto forward = [](torch::Tensor x) {
    Block::useAutoId();
    Block::start();
    x = torch::relu(x);
    Block::start("named");
    x = torch::tanh(x);
    Block::start();
    x = torch::exp(x);
    Block::useAutoId();
    Block::start();  // "0" again
    return torch::sin(x);
  };
  EXPECT_EQ(places(forward, ShardedExecution({"0", "named", "1"})), "relu 0 0, tanh 1 1, exp 2 2, sin 0 0");
  EXPECT_EQ(places(forward, ShardedExecution(AutoStage::AutoIncrement)), "relu 1 1, tanh 2 2, exp 3 3, sin 1 1");
}

TEST(Block, OfAFunctionEndsWithIt) {
  const auto inner = poptorch::BlockFunction([](const torch::Tensor& x) { return torch::tanh(x); }, "a", 1);
  EXPECT_EQ(places([&](torch::Tensor x) { return inner(torch::relu(x)); }), "relu 0 0, tanh 1 1");
  const auto text = error_of<std::exception>([&] { places([&](torch::Tensor x) { return torch::relu(inner(x)); }); });
  EXPECT_NE(text.find("No active Block"), std::string::npos) << text;
}

TEST(Block, DoesNothingOnTheHost) {
  auto layer = BeginBlock(torch::nn::Linear(3, 2), "b", 7);
  const auto x = torch::randn({4, 3});
  const Block block("a", 5);
  Block::useAutoId();
  EXPECT_TRUE(torch::equal(layer(x), layer->module()->forward(x)));
}

// -- BeginBlock -------------------------------------------------------------------------------------------------------

TEST(BeginBlock, LastsBeyondItsModule) {
  auto second = BeginBlock(torch::nn::Tanh(), 1);
  EXPECT_EQ(places([&](torch::Tensor x) { return torch::exp(second(torch::relu(x))); }), "relu 0 0, tanh 1 1, exp 1 1");
}

TEST(BeginBlock, GoesIntoASequence) {
  torch::nn::Sequential model(torch::nn::ReLU(), BeginBlock(torch::nn::Tanh(), "a", 1),
                              BeginBlock(torch::nn::Sequential(torch::nn::Sigmoid()), "b", 2));
  EXPECT_EQ(places([&](torch::Tensor x) { return model->forward(x); }), "relu 0 0, tanh 1 1, sigmoid 2 2");
}

TEST(BeginBlock, LeavesNamesAndTensorsAlone) {
  torch::nn::Sequential plain(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4));
  auto annotated = BeginBlock(plain, 1);
  ASSERT_EQ(annotated->named_parameters().keys(), plain->named_parameters().keys());
  ASSERT_EQ(annotated->named_buffers().keys(), plain->named_buffers().keys());
  torch::nn::BatchNorm1d norm(4);
  auto inner = BeginBlock(norm, 1);
  EXPECT_TRUE(inner->parameters()[0].is_same(norm->weight));
  EXPECT_EQ(inner->named_buffers().keys(), norm->named_buffers().keys());
  inner->eval();
  EXPECT_FALSE(norm->is_training());
}

TEST(BeginBlock, ShowsInTheTextOfAModule) {
  std::ostringstream text;
  text << *BeginBlock(torch::nn::Linear(3, 2), "a", 1);
  EXPECT_EQ(text.str().find("BeginBlock(user_id=a, ipu_id=1) torch::nn::Linear"), 0) << text.str();
}

TEST(BeginBlock, CanBeRemovedAndGivenAgain) {
  auto inner = BeginBlock(torch::nn::Tanh(), "a", 1);
  torch::nn::Sequential model(torch::nn::ReLU{}, inner);
  const auto forward = [&](torch::Tensor x) { return model->forward(x); };
  EXPECT_EQ(places(forward), "relu 0 0, tanh 1 1");
  EXPECT_EQ(error_of<std::exception>([&] { BeginBlock(inner, 2); }),
            "[BeginBlock] the module already starts a block: BeginBlock(user_id=a, ipu_id=1). A module starts at most "
            "one block; removeBlocks takes annotations off again.");
  poptorch::removeBlocks(model);
  EXPECT_EQ(places(forward), "relu 0 0, tanh 0 0");
  BeginBlock(inner, 2);
  EXPECT_EQ(places(forward), "relu 0 0, tanh 2 2");
}

// A member of the type that BeginBlock makes.
struct PipelineImpl : torch::nn::Module {
  PipelineImpl() {
    torch::manual_seed(1);
    first = register_module("first", BeginBlock(torch::nn::Linear(3, 3), 0));
    second = register_module("second", BeginBlock(torch::nn::Linear(3, 3), 1));
  }
  torch::Tensor forward(torch::Tensor x) { return second(torch::relu(first(x))); }
  poptorch::BlockModule<torch::nn::Linear> first = nullptr, second = nullptr;
};

TEST(BeginBlock, MakesAPipelineOfModules) {
  auto model = std::make_shared<PipelineImpl>();
  const auto x = torch::randn({4, 3});
  auto executor = poptorch::inferenceModel(model, poptorch::Options().deviceIterations(4));
  EXPECT_TRUE(torch::allclose(executor(x), model->forward(x), 1e-5, 1e-6));
  EXPECT_NE(executor.graphText().find("device 1"), std::string::npos);
}

// -- other marks ------------------------------------------------------------------------------------------------------

TEST(Attribute, RestoresWhatWasAroundIt) {
  const poptorch::Attribute outer({{"outline", {{"k", "1"}}}, {"other", {{"a", "b"}}}});
  {
    const poptorch::Attribute inner({{"outline", {{"k", "2"}}}});
    EXPECT_EQ(poptorch::Attribute::active().at("outline").at("k"), "2");
    EXPECT_EQ(poptorch::Attribute::active().at("other").at("a"), "b");
  }
  EXPECT_EQ(poptorch::Attribute::active().at("outline").at("k"), "1");
}

TEST(MultiConv, GroupsConvolutionsAndChecksThem) {
  torch::nn::Conv2d first(torch::nn::Conv2dOptions(1, 2, 3)), second(torch::nn::Conv2dOptions(1, 2, 3));
  poptorch::MultiConv convs;
  convs.planType(poptorch::MultiConvPlanType::Serial).availableMemoryProportions({0.1, 0.2});
  const auto both = [&](torch::Tensor x) {
    x = x.view({1, 1, 4, 3});
    return convs([&] { return first(x) + second(x); });
  };
  const auto x = torch::ones({4, 3});
  EXPECT_TRUE(torch::equal(both(x), first(x.view({1, 1, 4, 3})) + second(x.view({1, 1, 4, 3}))));
  EXPECT_EQ(error_of<std::exception>([&] { graph_of(both); }), "no error");
  convs.availableMemoryProportions({0.1, 0.2, 0.3});
  EXPECT_EQ(
      error_of<std::exception>([&] { graph_of(both); }),
      "[MultiConv] availableMemoryProportions has 3 values and the scope 2 convolutions; give one for all, or one "
      "for each.");
  EXPECT_NE(error_of<std::exception>([&] {
              graph_of([&](torch::Tensor x) { return convs([&] { return x + 1; }); });
            }).find("no convolution in the scope"),
            std::string::npos);
  poptorch::MultiConv inner;
  EXPECT_NE(error_of<std::exception>([&] {
              graph_of([&](torch::Tensor x) { return convs([&] { return inner([&] { return x; }); }); });
            }).find("do not nest"),
            std::string::npos);
  EXPECT_NE(error_of<std::exception>([&] { convs.partialsTypes({torch::kInt}); }).find("partials type"),
            std::string::npos);
}

TEST(Environment, KnowsTheHardwareAndTheLevelsOfTheLog) {
  EXPECT_FALSE(poptorch::isRunningOnIpu());
  graph_of([](torch::Tensor x) {
    EXPECT_TRUE(poptorch::isRunningOnIpu());
    return x + 1;
  });
  EXPECT_TRUE(poptorch::ipuHardwareIsAvailable() && !poptorch::ipuHardwareIsAvailable(1000));
  EXPECT_EQ(poptorch::ipuHardwareVersion(), 2);
  setenv("POPTORCH_IPU_MODEL", "1", 1);
  EXPECT_FALSE(poptorch::ipuHardwareIsAvailable());
  EXPECT_THROW(poptorch::ipuHardwareVersion(), poptorch::ArgumentError);
  unsetenv("POPTORCH_IPU_MODEL");
  poptorch::setLogLevel("ERR");
  poptorch::setLogLevel(2);
  EXPECT_THROW(poptorch::setLogLevel(5), poptorch::ValueError);
  EXPECT_THROW(poptorch::setLogLevel("LOUD"), poptorch::ValueError);
  poptorch::setLogLevel(poptorch::LogLevel::Warn);
}

}  // namespace
