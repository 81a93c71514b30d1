// Rows of the API that no other test of C++ is about: settings that are kept, random state, times, ids of tensors.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "error_of.h"
#include "poptorch/api/compile_settings.h"

namespace {

using poptorch::Options;
using poptorch::tests::error_of;

struct Dropout : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) { return torch::dropout(x, 0.5, /*train=*/true); }
};

TEST(Options, KeepHintsAndSwitches) {
  Options options;
  options.syncPattern(poptorch::SyncPattern::SinglePipeline).enableStableNorm(true).logDir("logs");
  options.disableModuleNamescope().relaxOptimizerAttributesChecks();
  options.Training.setConvolutionDithering(true);
  options.Popart.setEngineOptions({{"opt.useAutoloader", "true"}});
  EXPECT_EQ(options.syncPattern(), poptorch::SyncPattern::SinglePipeline);
  EXPECT_EQ(options.logDir(), "logs");
  const std::string text = options.toString();
  for (const char* part : {"enableStableNorm=true", "module_namescope_enabled=false", "relax_optimizer_checks=true",
                           "enableConvDithering", "opt.useAutoloader"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

TEST(Options, EachKindOfTensorsHasALocation) {
  poptorch::TensorLocationSettings settings;
  settings.useOnChipStorage(false).useIOTilesToLoad().useIOTilesToStore(false);
  settings.useReplicatedTensorSharding().minElementsForReplicatedTensorSharding(5).minElementsForOffChip(3);
  Options options;
  options.TensorLocations.setActivationLocation(settings).setAccumulatorLocation(settings);
  const aspen::TensorLocations told =
      compile_settings(options.store(), options.executionStrategy(), /*training=*/true, {0}).options.locations;
  for (const aspen::TensorLocation& location : {told.activations, told.accumulators}) {
    EXPECT_TRUE(location.off_device && location.sharded);
    EXPECT_EQ(location.min_elements, 3);
    EXPECT_EQ(location.min_shard_elements, 5);
  }
  EXPECT_FALSE(told.weights.off_device || told.optimizer_state.off_device);
}

TEST(Options, ProcessesAreReadFromVariables) {
  setenv("ASPEN_TEST_SIZE", "4", 1);
  setenv("ASPEN_TEST_RANK", "3", 1);
  Options options;
  options.Distributed.setEnvVarNames("ASPEN_TEST_SIZE", "ASPEN_TEST_RANK");
  EXPECT_EQ(options.Distributed.numProcesses(), 4);
  EXPECT_EQ(options.Distributed.processId(), 3);
  unsetenv("ASPEN_TEST_SIZE");
  unsetenv("ASPEN_TEST_RANK");
  options.Distributed.setEnvVarNames("ASPEN_TEST_SIZE", "ASPEN_TEST_RANK");
  EXPECT_EQ(options.Distributed.numProcesses(), 1);
}

TEST(Executor, RandomStateIsReadAndSet) {
  auto executor = poptorch::inferenceModel(std::make_shared<Dropout>(), Options().randomSeed(7));
  const auto x = torch::ones({64});
  executor(x);
  const auto state = executor.randomState();
  EXPECT_EQ(state.seed, 7u);
  const auto drawn = executor(x);
  EXPECT_FALSE(torch::equal(executor(x), drawn));
  executor.setRandomState(state);
  EXPECT_TRUE(executor.randomState() == state);
  EXPECT_TRUE(torch::equal(executor(x), drawn));
}

TEST(Executor, TellsHowLongCompilationTook) {
  auto executor = poptorch::inferenceModel(std::make_shared<Dropout>());
  EXPECT_NE(error_of([&] { executor.compilationTime(); }).find("not compiled"), std::string::npos);
  executor.compile(torch::ones({4}));
  EXPECT_GT(executor.compilationTime().count(), 0);
}

TEST(Environment, AsksForTheGraphAsText) {
  const auto folder = std::filesystem::temp_directory_path() / "poptorch_graph_export_test";
  std::filesystem::remove_all(folder);
  const std::string path = (folder / "new" / "graph.txt").string();
  setenv("POPTORCH_EXPORT_PROTO_FILE", path.c_str(), 1);
  auto compile = [] { poptorch::inferenceModel(std::make_shared<Dropout>()).compile(torch::ones({4})); };
  compile();
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str().rfind("graph @", 0), 0u) << text.str();
  setenv("POPTORCH_EXPORT_PROTO_AS_BINARY", "1", 1);
  EXPECT_NE(error_of(compile).find("the graph is only written as text"), std::string::npos);
  unsetenv("POPTORCH_EXPORT_PROTO_AS_BINARY");
  unsetenv("POPTORCH_EXPORT_PROTO_FILE");
  std::filesystem::remove_all(folder);
}

TEST(Environment, TensorsOfAModelHaveIds) {
  struct Notes : torch::nn::Module {
    torch::Tensor forward(torch::Tensor x) {
      const auto y = x + 1;
      first = poptorch::getIpuTensorId(x);
      second = poptorch::getIpuTensorId(y);
      again = poptorch::getIpuTensorId(y);
      return y;
    }
    std::int64_t first = 0, second = 0, again = 1;
  };
  auto notes = std::make_shared<Notes>();
  poptorch::inferenceModel(notes)(torch::ones({2}));
  EXPECT_EQ(notes->second, notes->again);
  EXPECT_NE(notes->first, notes->second);
  EXPECT_NE(error_of([] { poptorch::getIpuTensorId(torch::ones({2})); }).find("the tensor is on the host"),
            std::string::npos);
}

TEST(ReplicaGrouping, AllReplicasAreReadBack) {
  struct Scale : torch::nn::Module {
    torch::Tensor forward(torch::Tensor x) {
      return poptorch::identityLoss((w * x).sum(), poptorch::LossReduction::Sum);
    }
    torch::Tensor w = register_parameter("w", torch::ones({4, 1}));
  };
  auto module = std::make_shared<Scale>();
  auto options = Options().replicationFactor(4);
  options.Training.accumulationAndReplicationReductionType(poptorch::ReductionType::Sum);
  auto trainer = poptorch::trainingModel(module, options, poptorch::optim::SGD(module->parameters(), {.lr = 1}));
  trainer.replicaGrouping("w", poptorch::CommGroupType::Consecutive, 2, poptorch::VariableRetrievalMode::AllReplicas);
  trainer(torch::arange(4.f).reshape({4, 1}));
  trainer.copyWeightsToHost();
  // Groups {0, 1} and {2, 3} lose the sums of their rows.
  EXPECT_TRUE(torch::equal(module->w.detach().flatten(), torch::tensor({0.f, 0.f, -4.f, -4.f}))) << module->w;
}

TEST(VariableAttributes, UnknownNamesAreRefused) {
  poptorch::optim::VariableAttributes attributes({"lr"}, {"lr", "eps"});
  EXPECT_FALSE(attributes.isConstant("lr"));
  EXPECT_TRUE(attributes.isConstant("eps"));
  for (const auto& call : std::vector<std::function<void()>>{[&] { attributes.isConstant("rate"); },
                                                             [&] { attributes.markAsConstant("rate"); },
                                                             [&] { attributes.markAsVariable("rate"); }}) {
    EXPECT_EQ(error_of<poptorch::ArgumentError>(call), "Unknown optimiser attribute \"rate\"; expected one of eps, lr");
  }
}

}  // namespace
