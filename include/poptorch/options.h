// How a model is compiled and run. Setters return the object, so that they can be chained.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

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
  // How the gradients of those micro-batches are combined; the mean unless set.
  TrainingOptions& accumulationAndReplicationReductionType(ReductionType type);

  std::int64_t gradientAccumulation() const { return gradient_accumulation_; }
  ReductionType accumulationAndReplicationReductionType() const { return reduction_; }

 private:
  std::int64_t gradient_accumulation_ = 1;
  ReductionType reduction_ = ReductionType::Mean;
};

class Options {
 public:
  // Iterations of the device loop in one call: inputs hold that many batches, one after the other.
  Options& deviceIterations(std::int64_t iterations);
  // `period` is for EveryN only and must divide the device iterations.
  Options& outputMode(OutputMode mode, std::int64_t period = 1);
  // Seed of dropout and other random ops. Without it each model draws different numbers.
  Options& randomSeed(std::uint64_t seed);
  // "cpu" or "reference" (plain loops, to compare with); the fastest one of this build unless set.
  Options& backend(std::string name);

  TrainingOptions Training;

  std::int64_t deviceIterations() const { return device_iterations_; }
  OutputMode outputMode() const { return output_mode_; }
  std::int64_t outputReturnPeriod() const { return period_; }
  std::optional<std::uint64_t> randomSeed() const { return seed_; }
  const std::string& backend() const { return backend_; }

 private:
  std::int64_t device_iterations_ = 1;
  OutputMode output_mode_ = OutputMode::Default;
  std::int64_t period_ = 1;
  std::optional<std::uint64_t> seed_;
  std::string backend_;
};

}  // namespace poptorch
