// How a model is compiled and run. Setters return the object they were called on, so that they can be chained; a getter
// has the name of its setter, without "set" or "enable". Copies are independent of each other.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "poptorch/strategy.h"

namespace poptorch {

class OptionStore;  // of the library: the settings by name

// Which micro-batches of an output a call returns.
enum class OutputMode {
  Final,   // the last one
  EveryN,  // those of every N-th device iteration
  All,
  Sum,     // the sum over all
  Default  // Final for training, All for inference
};

// How gradients of several micro-batches become one.
enum class ReductionType { Sum, Mean };
// When the division of a mean happens: with each micro-batch, or at the end.
enum class MeanReductionStrategy { Running, Post };
// When the executor attaches to a device: as soon as the model is compiled, at the first call, never.
enum class ConnectionType { Always, OnDemand, Never };
// Which devices synchronise with each other: a hint.
enum class SyncPattern { Full, SinglePipeline, ReplicaAndLadder };
// How replicas form groups.
enum class CommGroupType { All, Consecutive, Orthogonal, NoGrouping };
// What the host sees of a parameter that differs between groups of replicas.
enum class VariableRetrievalMode { OnePerGroup, AllReplicas };

// Part of an Options, of whose settings it is a view.
class OptionsGroup {
 public:
  OptionsGroup(const OptionsGroup&) = delete;
  OptionsGroup& operator=(const OptionsGroup&) = delete;

 protected:
  explicit OptionsGroup(OptionStore& store) : store_(store) {}
  ~OptionsGroup() = default;
  OptionStore& store_;
};

class TrainingOptions : public OptionsGroup {
 public:
  // Micro-batches whose gradients make up one update of the weights.
  TrainingOptions& gradientAccumulation(std::int64_t steps);
  // How the gradients of those micro-batches, and of the replicas, are combined; the mean unless set.
  TrainingOptions& accumulationAndReplicationReductionType(ReductionType type);
  TrainingOptions& setMeanAccumulationAndReplicationReductionStrategy(MeanReductionStrategy strategy);
  // The device adjusts the loss scaling after each update.
  TrainingOptions& setAutomaticLossScaling(bool enabled);
  TrainingOptions& setConvolutionDithering(bool enabled);

  std::int64_t gradientAccumulation() const;
  ReductionType accumulationAndReplicationReductionType() const;
  MeanReductionStrategy meanAccumulationAndReplicationReductionStrategy() const;
  bool automaticLossScaling() const;

 private:
  friend class Options;
  explicit TrainingOptions(OptionStore& store) : OptionsGroup(store) {}
};

class PrecisionOptions : public OptionsGroup {
 public:
  // A division by zero, an overflow or a NaN ends the call with an error.
  PrecisionOptions& enableFloatingPointExceptions(bool enabled);
  // Results in half precision are rounded at random, up or down.
  PrecisionOptions& enableStochasticRounding(bool enabled);
  // Matrix products and convolutions of float32 multiply in bfloat16 and add in float32: faster on CPUs that do that.
  PrecisionOptions& enableBFloat16Products(bool enabled);
  // The type in which matrix products and convolutions accumulate: torch::kFloat or torch::kHalf.
  PrecisionOptions& setPartialsType(c10::ScalarType type);

  bool floatingPointExceptions() const;
  bool stochasticRounding() const;
  bool bfloat16Products() const;
  c10::ScalarType partialsType() const;

 private:
  friend class Options;
  explicit PrecisionOptions(OptionStore& store) : OptionsGroup(store) {}
};

// Where one kind of tensors is kept. What is not set is left to the execution strategy.
class TensorLocationSettings {
 public:
  // Whether the tensors stay on the device between uses.
  TensorLocationSettings& useOnChipStorage(std::optional<bool> use = true);
  // Each replica keeps a part of the tensor.
  TensorLocationSettings& useReplicatedTensorSharding(bool use = true);
  TensorLocationSettings& useIOTilesToLoad(bool use = true);
  TensorLocationSettings& useIOTilesToStore(bool use = true);
  // Smaller tensors stay on the device, or whole.
  TensorLocationSettings& minElementsForOffChip(std::int64_t elements);
  TensorLocationSettings& minElementsForReplicatedTensorSharding(std::int64_t elements);

  const std::map<std::string, std::int64_t>& entries() const { return entries_; }  // what was set, by name

 private:
  std::map<std::string, std::int64_t> entries_;
};

class TensorLocationOptions : public OptionsGroup {
 public:
  // An even number from 32 to 192; overlapped transfers need it.
  TensorLocationOptions& numIOTiles(std::int64_t tiles);
  TensorLocationOptions& setActivationLocation(const TensorLocationSettings& location);
  TensorLocationOptions& setWeightLocation(const TensorLocationSettings& location);
  TensorLocationOptions& setOptimizerLocation(const TensorLocationSettings& location);
  TensorLocationOptions& setAccumulatorLocation(const TensorLocationSettings& location);

  std::optional<std::int64_t> numIOTiles() const;

 private:
  friend class Options;
  explicit TensorLocationOptions(OptionStore& store) : OptionsGroup(store) {}
};

// Which of several processes this one is; by default what MPI says in the environment.
class DistributedOptions : public OptionsGroup {
 public:
  DistributedOptions& configureProcessId(std::int64_t process, std::int64_t num_processes);
  // Reads the two variables now; one that is not set means one process, number 0.
  DistributedOptions& setEnvVarNames(const std::string& num_processes, const std::string& process);
  DistributedOptions& disable();

  std::int64_t processId() const;
  std::int64_t numProcesses() const;

 private:
  friend class Options;
  explicit DistributedOptions(OptionStore& store) : OptionsGroup(store) {}
};

// Settings of the compiler by name, which are checked when a model is compiled. The most are hints.
class PopartOptions : public OptionsGroup {
 public:
  using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>,
                             std::map<std::string, std::string>>;
  PopartOptions& set(const std::string& key, const Value& value);
  PopartOptions& setEngineOptions(const std::map<std::string, std::string>& options);
  PopartOptions& setPatterns(const std::map<std::string, bool>& patterns, std::int64_t level = 2);

  bool exists(const std::string& key) const;

 private:
  friend class Options;
  explicit PopartOptions(OptionStore& store) : OptionsGroup(store) {}
};

class Options {
 public:
  // Defaults, and what the environment says: POPTORCH_CACHE_DIR, POPTORCH_DEFAULT_OPTIONS (JSON).
  Options();
  Options(const Options& other);
  Options& operator=(const Options& other);
  ~Options();

  // Iterations of the device loop in one call: inputs hold that many batches, one after the other.
  Options& deviceIterations(std::int64_t iterations);
  // Copies of the model that train on different data. Inputs hold a batch for each of them, outputs a block.
  Options& replicationFactor(std::int64_t replicas);
  // Groups of so many replicas receive the same input. To be called after replicationFactor.
  Options& inputReplicaGrouping(std::int64_t group_size, CommGroupType type);
  // Whether replicas share the buffers of the model, which then must not be written; else each has its own.
  Options& broadcastBuffers(bool broadcast);
  // `period` is for EveryN, which needs it, and must divide the device iterations.
  Options& outputMode(OutputMode mode, std::optional<std::int64_t> period = std::nullopt);
  // Returns a tensor of the graph to the host after each call, as `short_name`.
  Options& anchorTensor(const std::string& short_name, const std::string& long_name,
                        std::optional<OutputMode> mode = std::nullopt, std::int64_t period = 1);
  // How the blocks of the model are placed and run; PipelinedExecution unless set.
  Options& setExecutionStrategy(ExecutionStrategy strategy);
  // Memory for matrix products and convolutions by device, {"IPU0", 0.2}: a hint.
  Options& setAvailableMemoryProportion(const std::map<std::string, double>& proportions);
  // Memory that each device may take: "256M", or "IPU0=256M,IPU1=1G" for some. A model that needs more is an Error when
  // it is compiled, with a table and advice. automatic, or ",auto" behind the text: tensors leave the devices and are
  // computed again until it fits, which changes no result. 0: no limit. Without it, ASPEN_MEMORY_BUDGET says so.
  Options& setMemoryBudget(const std::string& budget, bool automatic = false);
  Options& setMemoryBudget(std::int64_t bytes, bool automatic = false);
  // Takes a power of two of IPUs when the model needs another number, instead of an error.
  Options& autoRoundNumIPUs(bool round);
  // Seed of dropout and other random ops, and of torch. Without it each model draws different numbers.
  Options& randomSeed(std::uint64_t seed);
  // Keeps compiled programs in this directory; nullopt: nowhere.
  Options& enableExecutableCaching(const std::optional<std::string>& path);
  // Whether the virtual IPUs stand for a model of the hardware, which takes any number of IPUs.
  Options& useIpuModel(bool use);
  Options& useIpuId(std::int64_t id);
  // Compiles without ever attaching to a device.
  Options& useOfflineIpuTarget(std::int64_t ipu_version = 2);
  Options& connectionType(ConnectionType type);
  Options& syncPattern(SyncPattern pattern);
  Options& enableStableNorm(bool enabled);
  // Inputs are made on the device; nothing is transferred.
  Options& enableSyntheticData(bool enabled);
  Options& logCycleCount(bool enabled);
  Options& enableProfiling(const std::optional<std::string>& directory = std::nullopt);
  Options& modelName(const std::string& name);
  Options& logDir(const std::string& directory);
  Options& maxRepeatLogs(std::optional<std::int64_t> lines);  // nullopt: no limit
  // Ops are not named after the modules they come from.
  Options& disableModuleNamescope();
  Options& relaxOptimizerAttributesChecks(bool relax = true);
  // Buffers that copyNamedBuffersToDevice may refresh.
  Options& updatableNamedBuffers(const std::vector<std::string>& names);
  // "cpu" or "reference" (plain loops, to compare with); the fastest one of this build unless set.
  Options& backend(const std::string& name);

  // An object of setters and their arguments: {"Training.gradientAccumulation": 8, "outputMode": "OutputMode.All"}.
  Options& fromJson(const std::string& text);
  // A file of one setter per line, `Training.gradientAccumulation(8)  # comment`. Arguments may be written as in C++ or
  // as in Python. A ConfigFileError if a line is not well formed; then nothing is changed.
  Options& loadFromFile(const std::string& path);

  std::int64_t deviceIterations() const;
  std::int64_t replicationFactor() const;
  std::int64_t inputGroupSize() const;
  CommGroupType inputGroupType() const;
  bool broadcastBuffers() const;
  OutputMode outputMode() const;
  std::int64_t outputReturnPeriod() const;
  const ExecutionStrategy& executionStrategy() const { return strategy_; }
  std::map<std::int64_t, double> availableMemoryProportion() const;
  std::optional<std::string> memoryBudget() const;  // in bytes: "268435456,auto"
  bool autoRoundNumIPUs() const;
  std::optional<std::uint64_t> randomSeed() const;
  std::optional<std::string> executableCaching() const;
  std::optional<bool> useIpuModel() const;
  std::optional<std::int64_t> useIpuId() const;
  ConnectionType connectionType() const;
  SyncPattern syncPattern() const;
  std::optional<std::string> modelName() const;
  std::string logDir() const;
  std::optional<std::int64_t> maxRepeatLogs() const;
  bool moduleNamescope() const;
  std::vector<std::string> updatableNamedBuffers() const;
  std::string backend() const;

  // All settings; the same text for equal ones.
  std::string toString() const;
  // What differs from the defaults, for fromJson; but for the execution strategy, which JSON cannot say.
  std::string toJson() const;

  const OptionStore& store() const { return *store_; }  // for the library

 private:
  std::unique_ptr<OptionStore> store_;
  ExecutionStrategy strategy_ = PipelinedExecution();

 public:
  TrainingOptions Training;
  PrecisionOptions Precision;
  TensorLocationOptions TensorLocations;
  DistributedOptions Distributed;
  PopartOptions Popart;
};

}  // namespace poptorch
