// How a model is compiled and run. Setters return the object, so that they can be chained.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "poptorch/strategy.h"

namespace poptorch {

// Which micro-batches of an output a call returns.
enum class OutputMode {
  Final,   // the last one
  EveryN,  // those of every N-th device iteration
  All,
  Sum,     // the sum over all
  Default  // Final for training, All for inference
};

enum class ReductionType { Sum, Mean };

class TrainingOptions {
 public:
  // Micro-batches whose gradients make up one update of the weights.
  TrainingOptions& gradientAccumulation(std::int64_t steps);
  // How the gradients of those micro-batches, and of the replicas, are combined; the mean unless set.
  TrainingOptions& accumulationAndReplicationReductionType(ReductionType type);

  std::int64_t gradientAccumulation() const { return gradient_accumulation_; }
  ReductionType accumulationAndReplicationReductionType() const { return reduction_; }

 private:
  std::int64_t gradient_accumulation_ = 1;
  ReductionType reduction_ = ReductionType::Mean;
};

// For programs that run as several processes, each with its share of the data.
class DistributedOptions {
 public:
  DistributedOptions& configureProcessId(std::int64_t process_id, std::int64_t num_processes);

  std::int64_t processId() const { return process_id_; }
  std::int64_t numProcesses() const { return num_processes_; }

 private:
  std::int64_t process_id_ = 0;
  std::int64_t num_processes_ = 1;
};

class Options {
 public:
  // Iterations of the device loop in one call: inputs hold that many batches, one after the other.
  Options& deviceIterations(std::int64_t iterations);
  // Copies of the model that train on different data. Inputs hold a batch for each of them, outputs a block.
  Options& replicationFactor(std::int64_t replicas);
  // How the blocks of the model are placed and run; PipelinedExecution unless set.
  Options& setExecutionStrategy(ExecutionStrategy strategy);
  // Takes a power of two of IPUs when the model needs another number, instead of an error.
  Options& autoRoundNumIPUs(bool round);
  // `period` is for EveryN only and must divide the device iterations.
  Options& outputMode(OutputMode mode, std::int64_t period = 1);
  // Seed of dropout and other random ops. Without it each model draws different numbers.
  Options& randomSeed(std::uint64_t seed);
  // "cpu" or "reference" (plain loops, to compare with); the fastest one of this build unless set.
  Options& backend(std::string name);

  TrainingOptions Training;
  DistributedOptions Distributed;

  std::int64_t deviceIterations() const { return device_iterations_; }
  std::int64_t replicationFactor() const { return replication_factor_; }
  const ExecutionStrategy& executionStrategy() const { return strategy_; }
  bool autoRoundNumIPUs() const { return rounds_ipus_; }
  OutputMode outputMode() const { return output_mode_; }
  std::int64_t outputReturnPeriod() const { return period_; }
  std::optional<std::uint64_t> randomSeed() const { return seed_; }
  const std::string& backend() const { return backend_; }

 private:
  std::int64_t device_iterations_ = 1;
  std::int64_t replication_factor_ = 1;
  ExecutionStrategy strategy_ = PipelinedExecution();
  bool rounds_ipus_ = false;
  OutputMode output_mode_ = OutputMode::Default;
  std::int64_t period_ = 1;
  std::optional<std::uint64_t> seed_;
  std::string backend_;
};

}  // namespace poptorch
