// The executor: owns the memory of one loaded program and runs it. One call runs D device iterations of G
// micro-batches each, without allocating and without calling back except to ask whether to stop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "aspen/runtime/program.h"

namespace aspen {

// Which micro-batches of an output reach the host.
enum class OutputMode : std::uint8_t { kFinal, kEveryN, kAll, kSum };

struct HostOutput {
  void* data = nullptr;  // room for every micro-batch the mode returns, in order
  OutputMode mode = OutputMode::kAll;
  std::int64_t period = 1;  // kEveryN only; divides the device iterations
};

struct RunRequest {
  std::int64_t device_iterations = 1;
  std::int64_t gradient_accumulation = 1;
  std::vector<const void*> inputs;    // per program input: device_iterations * gradient_accumulation micro-batches
  std::vector<HostOutput> outputs;    // per program output
  std::function<bool()> should_stop;  // asked now and then between micro-batches; true ends the run with Interrupted
};

class Executor {
 public:
  explicit Executor(std::shared_ptr<const Program> program);
  ~Executor();

  const Program& program() const;
  void write_variable(std::string_view name, std::span<const std::byte> bytes);
  void read_variable(std::string_view name, std::span<std::byte> bytes) const;

  // Seed and number of micro-batches run so far: the whole state of the random ops.
  void set_random_state(std::uint64_t seed, std::uint64_t step);
  std::uint64_t seed() const;
  std::uint64_t step() const;

  // An error in an op names the op, where it was captured and the micro-batch. After Interrupted or an error the
  // executor may be used again; variables hold what the finished micro-batches left.
  void run(const RunRequest& request);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace aspen
