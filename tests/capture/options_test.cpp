// poptorch::Options: setters, JSON, files, text, copies, and what follows from them for a model.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "error_of.h"
#include "poptorch/api/batching.h"
#include "poptorch/api/compile_settings.h"

namespace {

using poptorch::CommGroupType;
using poptorch::Options;
using poptorch::OutputMode;
using poptorch::TensorLocationSettings;

// The text of an error of that type, "no error", or the text of another error after its name.
using poptorch::tests::error_of;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A variable of the environment while it lives.
struct Environment {
  Environment(const char* variable, const char* value) : name(variable) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name); }
  const char* name;
};

struct Counter : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    calls.add_(1);
    return x + calls;
  }
  torch::Tensor calls = register_buffer("calls", torch::zeros({}));
};

struct Doubles : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) { return x * 2; }
};

std::string error_of_compiling(const Options& options, const torch::Tensor& x = torch::ones({4, 2})) {
  return error_of<poptorch::Error>([&] { poptorch::inferenceModel(std::make_shared<Doubles>(), options).compile(x); });
}

aspen::CompileOptions told(const Options& options, bool training = true, const std::set<std::int64_t>& ipus = {0}) {
  return compile_settings(options.store(), options.executionStrategy(), training, ipus).options;
}

TEST(Options, KeepWhatWasSet) {
  Options options;
  EXPECT_EQ(options.deviceIterations(), 1);
  EXPECT_EQ(options.outputMode(), OutputMode::Default);
  EXPECT_FALSE(options.randomSeed().has_value());
  options.deviceIterations(4).replicationFactor(2).outputMode(OutputMode::EveryN, 2).useIpuId(3).modelName("net");
  options.Training.gradientAccumulation(8).accumulationAndReplicationReductionType(poptorch::ReductionType::Sum);
  options.Precision.enableFloatingPointExceptions(true).setPartialsType(torch::kHalf);
  options.TensorLocations.numIOTiles(32);
  options.Distributed.configureProcessId(1, 2);
  options.setAvailableMemoryProportion({{"IPU0", 0.25}}).updatableNamedBuffers({"a", "b"}).maxRepeatLogs(std::nullopt);
  EXPECT_EQ(options.deviceIterations(), 4);
  EXPECT_EQ(options.outputMode(), OutputMode::EveryN);
  EXPECT_EQ(options.outputReturnPeriod(), 2);
  EXPECT_EQ(options.useIpuId(), 3);
  EXPECT_EQ(options.modelName(), "net");
  EXPECT_EQ(options.Training.gradientAccumulation(), 8);
  EXPECT_EQ(options.Training.accumulationAndReplicationReductionType(), poptorch::ReductionType::Sum);
  EXPECT_TRUE(options.Precision.floatingPointExceptions());
  EXPECT_EQ(options.Precision.partialsType(), torch::kHalf);
  EXPECT_EQ(options.TensorLocations.numIOTiles(), 32);
  EXPECT_EQ(options.Distributed.processId(), 1);
  EXPECT_EQ(options.availableMemoryProportion(), (std::map<std::int64_t, double>{{0, 0.25}}));
  EXPECT_EQ(options.updatableNamedBuffers(), (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(options.maxRepeatLogs().has_value());
}

TEST(Options, CopiesAreIndependent) {
  Options first;
  first.deviceIterations(3).Training.gradientAccumulation(5);
  Options second = first, third;
  third = first;
  for (Options* copy : {&second, &third}) {
    EXPECT_EQ(copy->deviceIterations(), 3);
    copy->Training.gradientAccumulation(7);  // of the copy, not of the first
    copy->Precision.enableStochasticRounding(true).enableBFloat16Products(true);
    EXPECT_TRUE(copy->Precision.bfloat16Products());
    EXPECT_TRUE(copy->Popart.exists("enableStochasticRounding"));
  }
  EXPECT_EQ(first.Training.gradientAccumulation(), 5);
  EXPECT_FALSE(first.Popart.exists("enableStochasticRounding"));
  EXPECT_FALSE(first.Precision.bfloat16Products());
  const Options moved = std::move(second);  // NOLINT: as users may write it
  EXPECT_EQ(moved.Training.gradientAccumulation(), 7);
  first = first;  // NOLINT: likewise
  EXPECT_EQ(first.Training.gradientAccumulation(), 5);
}

TEST(Options, SeedReachesTorch) {
  Options().randomSeed(42);
  const auto first = torch::rand({1});
  torch::manual_seed(42);
  EXPECT_TRUE(torch::equal(first, torch::rand({1})));
  const std::uint64_t large = ~std::uint64_t{0} - 4;
  EXPECT_EQ(Options().randomSeed(large).randomSeed(), large);
}

TEST(Options, SettersRefuseWhatIsWrong) {
  using poptorch::ArgumentError, poptorch::ValueError;
  Options options;
  EXPECT_EQ(error_of<ArgumentError>([&] { options.outputMode(OutputMode::EveryN); }),
            "OutputMode::EveryN needs a positive output_return_period, not nullptr");
  EXPECT_EQ(error_of<ValueError>([&] { options.inputReplicaGrouping(2, CommGroupType::Consecutive); }),
            "Input group size 2 exceeds the replication factor 1; call replicationFactor first");
  EXPECT_EQ(error_of<ValueError>([&] { options.inputReplicaGrouping(1, CommGroupType::All); }),
            "Inputs cannot be grouped by CommGroupType::All; use Consecutive, Orthogonal or NoGrouping");
  EXPECT_EQ(error_of<ValueError>([&] { options.Precision.setPartialsType(torch::kInt); }),
            "setPartialsType expects torch::kFloat or torch::kHalf, not \"Int\"");
  EXPECT_EQ(error_of<ArgumentError>([&] { options.TensorLocations.numIOTiles(33); }),
            "numIOTiles must be an even number from 32 to 192, not 33");
  EXPECT_TRUE(contains(error_of<ArgumentError>([&] { options.setAvailableMemoryProportion({{"0", 0.5}}); }), "\"0\""));
}

TEST(Options, JsonGoesBothWays) {
  Options options;
  options.fromJson(R"({"deviceIterations": 3, "outputMode": ["OutputMode.EveryN", 3], "modelName": "a\u00e9\n",
                       "Precision.enableFloatingPointExceptions": true, "_Popart.set": ["outlineThreshold", 1.5]})");
  EXPECT_EQ(options.deviceIterations(), 3);
  EXPECT_EQ(options.outputMode(), OutputMode::EveryN);
  EXPECT_EQ(options.modelName(), "a\xc3\xa9\n");
  EXPECT_TRUE(options.Precision.floatingPointExceptions());
  options.replicationFactor(4).inputReplicaGrouping(2, CommGroupType::Orthogonal).randomSeed(~std::uint64_t{0});
  options.setAvailableMemoryProportion({{"IPU1", 0.5}}).updatableNamedBuffers({"a"}).backend("reference");
  options.Training.accumulationAndReplicationReductionType(poptorch::ReductionType::Sum);
  options.TensorLocations.setWeightLocation(TensorLocationSettings().useOnChipStorage(false));
  Options other;
  other.fromJson(options.toJson());
  EXPECT_EQ(other.toString(), options.toString());
  EXPECT_EQ(Options().toJson(), "{}");
}

TEST(Options, MalformedJsonIsNamedWithItsLine) {
  const auto error = [](const char* text) { return error_of<poptorch::Error>([&] { Options().fromJson(text); }); };
  EXPECT_EQ(error("{\n\"deviceIterations\": }"), "[fromJson] line 2 is not JSON: expected a value, but found \"}\".");
  EXPECT_EQ(error("[1]"), "[fromJson] is a list; expected a JSON object of options, {\"deviceIterations\": 4}.");
  for (const char* text : {"", "{", "{'a': 1}", "{\"a\": 1,}", "{\"a\": 01x}", "{\"a\": True}", "{\"a\" 1}", "{} {}",
                           "{\"a\": \"\\q\"}", "{\"a\": \"\n\"}", "{\"a\": [1,]}"}) {
    EXPECT_TRUE(contains(error(text), "is not JSON: expected ")) << text << ": " << error(text);
  }
  EXPECT_TRUE(contains(error(std::string(1000, '[').c_str()), "lists inside each other"));
  EXPECT_TRUE(contains(error("{\"deviceIteration\": 1}"), "close matches: \"deviceIterations\""));
  EXPECT_TRUE(contains(error("{\"deviceIterations\": 1.5}"), "deviceIterations expects an int, not 1.5"));
  const Environment engine("POPLAR_ENGINE_OPTIONS", "{\"autoReport.all\"}");
  EXPECT_TRUE(contains(error_of_compiling(Options()), "[POPLAR_ENGINE_OPTIONS] line 1 is not JSON"));
}

TEST(Options, TextHasEverythingAndIsStable) {
  Options options;
  const std::string text = options.toString();
  EXPECT_EQ(text, Options().toString());
  EXPECT_TRUE(text.rfind("Options(\n  ", 0) == 0) << text;
  for (const char* part : {"device_iterations=1", "Training=Training(", "_Popart=_Popart(", "broadcast_buffers=true",
                           "input_cgt=CommGroupType::Consecutive", "log_dir=\".\""}) {
    EXPECT_TRUE(contains(text, part)) << part << " in " << text;
  }
  EXPECT_NE(options.deviceIterations(2).toString(), text);
}

TEST(Options, EnvironmentGivesDefaults) {
  const Environment cache("POPTORCH_CACHE_DIR", "/tmp/cache");
  const Environment defaults("POPTORCH_DEFAULT_OPTIONS", "{\"deviceIterations\": 9}");
  const Environment size("OMPI_COMM_WORLD_SIZE", "4"), rank("OMPI_COMM_WORLD_RANK", "3");
  Options options;
  EXPECT_EQ(options.deviceIterations(), 9);
  EXPECT_EQ(options.executableCaching(), "/tmp/cache");
  EXPECT_EQ(options.Distributed.numProcesses(), 4);
  EXPECT_EQ(options.Distributed.disable().numProcesses(), 1);
  EXPECT_FALSE(options.enableExecutableCaching(std::nullopt).executableCaching().has_value());
}

struct OptionsFile : testing::Test {
  Options load(const std::string& text) {
    std::ofstream(path) << text;
    return Options().loadFromFile(path);
  }
  ~OptionsFile() override { std::filesystem::remove(path); }
  std::string path = (std::filesystem::temp_directory_path() / "poptorch_options_test.cfg").string();
};

TEST_F(OptionsFile, StatementsAreApplied) {
  const Options options = load(
      "# a comment\n\n  deviceIterations(4)  # trailing\n"
      "Training.gradientAccumulation(8)\n"
      "outputMode(poptorch.OutputMode.EveryN, output_return_period=2)\n"
      "replicationFactor(2)\n"
      "inputReplicaGrouping(2, poptorch::CommGroupType::Orthogonal)\n"
      "_Popart.set('outlineThreshold', 2.5)\n"
      "setAvailableMemoryProportion({'IPU0': 0.5})\n"
      "TensorLocations.setWeightLocation(poptorch.TensorLocationSettings().useOnChipStorage(False))\n"
      "setExecutionStrategy(poptorch.ShardedExecution(poptorch.AutoStage.AutoIncrement))\n"
      "Precision.setPartialsType(torch.half)\n"
      "enableExecutableCaching(None)\n");
  EXPECT_EQ(options.deviceIterations(), 4);
  EXPECT_EQ(options.Training.gradientAccumulation(), 8);
  EXPECT_EQ(options.outputReturnPeriod(), 2);
  EXPECT_EQ(options.inputGroupType(), CommGroupType::Orthogonal);
  EXPECT_TRUE(options.Popart.exists("outlineThreshold"));
  EXPECT_EQ(options.availableMemoryProportion().at(0), 0.5);
  EXPECT_TRUE(told(options).locations.weights.off_device);
  EXPECT_EQ(options.executionStrategy().kind(), poptorch::ExecutionStrategy::Kind::Sharded);
  EXPECT_EQ(options.Precision.partialsType(), torch::kHalf);
}

TEST_F(OptionsFile, SyntaxErrorNamesTheStatementAndChangesNothing) {
  Options options;
  std::ofstream(path) << "# comment\ndeviceIterations(4)\n\nreplicationFactor(\n";
  const std::string text = error_of<poptorch::ConfigFileError>([&] { options.loadFromFile(path); });
  EXPECT_EQ(text,
            "SyntaxError at line 2 of poptorch_options_test.cfg: expected a value, but found the end of the text\n"
            "> options.replicationFactor(");
  EXPECT_EQ(options.deviceIterations(), 1);
  EXPECT_TRUE(contains(error_of<poptorch::ArgumentError>([&] { load("outputMode(1)"); }),
                       "outputMode expects a member of poptorch::OutputMode as output_mode, not 1"));
  EXPECT_TRUE(contains(error_of<poptorch::ArgumentError>([&] { load("deviceIterations(iterations=1)"); }),
                       "has no argument iterations"));
  EXPECT_TRUE(contains(error_of<poptorch::Error>([&] { options.loadFromFile("/no/such/file"); }), "/no/such/file"));
}

TEST(Options, CompilerIsToldWhatTheyMean) {
  Options options;
  EXPECT_EQ(told(options).recompute, aspen::Recompute::kStages);
  EXPECT_TRUE(told(options).mean_reduction);
  EXPECT_FALSE(told(options).running_mean);
  options.deviceIterations(3).replicationFactor(4).inputReplicaGrouping(2, CommGroupType::Consecutive).randomSeed(5);
  options.Training.gradientAccumulation(5).accumulationAndReplicationReductionType(poptorch::ReductionType::Sum);
  options.Training.setMeanAccumulationAndReplicationReductionStrategy(poptorch::MeanReductionStrategy::Running);
  options.Precision.enableFloatingPointExceptions(true);
  options.Popart.set("defaultPrefetchBufferingDepth", 3).set("autoRecomputation", 1);
  options.TensorLocations.setOptimizerLocation(
      TensorLocationSettings().useOnChipStorage(false).useReplicatedTensorSharding().minElementsForOffChip(7));
  const aspen::CompileOptions entries = told(options);
  EXPECT_EQ(entries.device_iterations, 3);
  EXPECT_EQ(entries.gradient_accumulation, 5);
  EXPECT_EQ(told(options, false).gradient_accumulation, 1);
  EXPECT_EQ(entries.replicas, 4U);
  EXPECT_EQ(entries.input_grouping, (aspen::ReplicaGrouping{aspen::ReplicaGrouping::Kind::kConsecutive, 2}));
  EXPECT_FALSE(entries.mean_reduction);
  EXPECT_TRUE(entries.running_mean);
  EXPECT_TRUE(entries.checks_floats);
  EXPECT_EQ(entries.prefetch_depth, 3);
  EXPECT_EQ(entries.recompute, aspen::Recompute::kAll);
  EXPECT_EQ(told(options, true, {0, 1}).recompute, aspen::Recompute::kStages);
  EXPECT_TRUE(entries.locations.optimizer_state.off_device && entries.locations.optimizer_state.sharded);
  EXPECT_EQ(entries.locations.optimizer_state.min_elements, 7);
  EXPECT_FALSE(entries.locations.weights.off_device);
}

TEST(Options, WhatTheEngineCannotDoIsSaidAtCompilation) {
  const auto with = [](const std::function<void(Options&)>& change) {
    Options options;
    change(options);
    return error_of_compiling(options);
  };
  EXPECT_EQ(with([](Options& o) { o.deviceIterations(0); }), "[compile] deviceIterations is 0; expected at least 1.");
  EXPECT_TRUE(contains(with([](Options& o) { o.Popart.set("outlineTreshold", 1.0); }),
                       "[_Popart] unknown option \"outlineTreshold\"; close matches: \"outlineThreshold\""));
  EXPECT_EQ(with([](Options& o) { o.Popart.set("outlineThreshold", "1"); }),
            "[_Popart] option \"outlineThreshold\" has the value \"1\"; expected a number.");
  EXPECT_TRUE(contains(with([](Options& o) { o.Popart.set("autoRecomputation", 9); }), "an int from 0 to 4"));
  EXPECT_TRUE(contains(with([](Options& o) { o.Distributed.configureProcessId(0, 2); }), "2 processes"));
  EXPECT_TRUE(contains(with([](Options& o) { o.Popart.set("meanAccumulationAndReplicationReductionStrategy", 2); }),
                       "MeanReductionStrategy::PostAndLoss is no longer available"));
  EXPECT_TRUE(contains(with([](Options& o) { o.useOfflineIpuTarget().useIpuModel(true); }), "useIpuModel(true)"));
  EXPECT_TRUE(contains(with([](Options& o) { o.deviceIterations(4).outputMode(OutputMode::EveryN, 3); }),
                       "the output period 3 of OutputMode::EveryN does not divide the 4 device iterations"));
  EXPECT_EQ(with([](Options& o) {
              o.Popart.set("enableOutlining", false).setPatterns({{"TiedGather", true}});
            }),
            "no error");
}

TEST(Options, BatchesMustDivide) {
  Options options;
  options.deviceIterations(2).replicationFactor(4).inputReplicaGrouping(2, CommGroupType::Consecutive);
  EXPECT_EQ(error_of_compiling(options, torch::ones({6, 2})),
            "Argument \"input0\" of shape [6, 2] does not divide into micro-batches: its first dimension 6 must be a "
            "multiple of 2 device iterations x 1 gradient accumulation steps x 2 groups of replicas. "
            "poptorch::DataLoader makes batches of the right size");
  EXPECT_TRUE(contains(error_of_compiling(options, torch::tensor(1.0)), "e.g. with .expand(4)"));
  EXPECT_EQ(error_of_compiling(options, torch::ones({8, 2})), "no error");
}

TEST(Options, InferenceAccumulatesNothing) {
  Options options;
  options.Training.gradientAccumulation(2);
  const std::string text =
      error_of<poptorch::Error>([&] { poptorch::inferenceModel(std::make_shared<Doubles>(), options); });
  EXPECT_TRUE(contains(text, "Training.gradientAccumulation is 2; inference accumulates no gradients")) << text;
  EXPECT_TRUE(contains(text, "A pipeline is filled by deviceIterations")) << text;
}

TEST(Options, ConnectionTypeSaysWhenToAttach) {
  const auto x = torch::ones({4, 2});
  const auto executor_with = [](poptorch::ConnectionType type) {
    return poptorch::inferenceModel(std::make_shared<Doubles>(), Options().connectionType(type));
  };
  auto always = executor_with(poptorch::ConnectionType::Always);
  always.compile(x);
  EXPECT_TRUE(always.isAttachedToDevice());
  auto on_demand = executor_with(poptorch::ConnectionType::OnDemand);
  on_demand.compile(x);
  EXPECT_FALSE(on_demand.isAttachedToDevice());
  EXPECT_TRUE(torch::equal(on_demand(x), x * 2));
  EXPECT_TRUE(on_demand.isAttachedToDevice());
  auto never = executor_with(poptorch::ConnectionType::Never);
  never.compile(x);
  EXPECT_TRUE(contains(error_of<poptorch::ArgumentError>([&] { never(x); }), "ConnectionType::Never"));
  EXPECT_TRUE(contains(error_of<poptorch::ArgumentError>([&] { never.attachToDevice(); }), "ConnectionType::Never"));
}

TEST(Options, UpdatableBuffersMustExist) {
  EXPECT_EQ(error_of_compiling(Options().updatableNamedBuffers({"mask"})),
            "[compile] updatableNamedBuffers lists \"mask\", which is no buffer of the model; it has none.");
}

TEST(Options, ReplicasDoNotWriteSharedBuffers) {
  const auto run = [](const Options& options) {
    return error_of<poptorch::Error>([&] {
      poptorch::inferenceModel(std::make_shared<Counter>(), options)(torch::ones({4, 2}));
    });
  };
  EXPECT_EQ(run(Options().replicationFactor(2)),
            "[compile] forward changes buffer \"calls\", and 2 replicas with inputs of their own would each change it "
            "differently. options.broadcastBuffers(false) gives each replica a copy of its own.");
  EXPECT_EQ(run(Options().replicationFactor(2).broadcastBuffers(false)), "no error");
  EXPECT_EQ(run(Options().replicationFactor(2).inputReplicaGrouping(2, CommGroupType::Consecutive)), "no error");
  // The statistics of normalisations are each replica's own.
  struct Norm : torch::nn::Module {
    torch::Tensor forward(torch::Tensor x) { return norm(x); }
    torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(2));
  };
  EXPECT_EQ(error_of<poptorch::Error>([] {
              poptorch::inferenceModel(std::make_shared<Norm>(), Options().replicationFactor(2))(torch::ones({4, 2}));
            }),
            "no error");
}

}  // namespace
