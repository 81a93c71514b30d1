#include "poptorch/options.h"

#include <fmt/format.h>

#include "poptorch/error.h"

namespace poptorch {
namespace {

void check_positive(const char* what, std::int64_t value) {
  if (value < 1) throw Error(fmt::format("[Options] {} is {}; expected at least 1.", what, value));
}

}  // namespace

TrainingOptions& TrainingOptions::gradientAccumulation(std::int64_t steps) {
  check_positive("gradientAccumulation", steps);
  gradient_accumulation_ = steps;
  return *this;
}

TrainingOptions& TrainingOptions::accumulationAndReplicationReductionType(ReductionType type) {
  reduction_ = type;
  return *this;
}

DistributedOptions& DistributedOptions::configureProcessId(std::int64_t process_id, std::int64_t num_processes) {
  check_positive("the number of processes", num_processes);
  if (process_id < 0 || process_id >= num_processes) {
    throw Error(fmt::format("[Options] processId is {}; expected 0 <= processId < {}, the number of processes.",
                            process_id, num_processes));
  }
  process_id_ = process_id;
  num_processes_ = num_processes;
  return *this;
}

Options& Options::deviceIterations(std::int64_t iterations) {
  check_positive("deviceIterations", iterations);
  device_iterations_ = iterations;
  return *this;
}

Options& Options::replicationFactor(std::int64_t replicas) {
  check_positive("replicationFactor", replicas);
  replication_factor_ = replicas;
  return *this;
}

Options& Options::setExecutionStrategy(ExecutionStrategy strategy) {
  strategy_ = std::move(strategy);
  return *this;
}

Options& Options::autoRoundNumIPUs(bool round) {
  rounds_ipus_ = round;
  return *this;
}

Options& Options::outputMode(OutputMode mode, std::int64_t period) {
  check_positive("the period of outputMode", period);
  output_mode_ = mode;
  period_ = mode == OutputMode::EveryN ? period : 1;
  return *this;
}

Options& Options::randomSeed(std::uint64_t seed) {
  seed_ = seed;
  return *this;
}

Options& Options::backend(std::string name) {
  backend_ = std::move(name);
  return *this;
}

}  // namespace poptorch
