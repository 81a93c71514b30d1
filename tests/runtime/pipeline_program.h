// Programs written by hand for the tests of the executor: a chain of stages y = w * x, trained or not, on any devices
// and any number of replicas, and the same computed in a plain loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "aspen/runtime/executor.h"

namespace aspen::testing {

using V = std::vector<float>;

inline constexpr std::int64_t kWidth = 20;         // elements of every tensor: more than one cache line
inline constexpr std::size_t kBytes = kWidth * 4;  // of a tensor
inline constexpr std::size_t kSpace = 128;         // of a buffer
inline constexpr float kLearningRate = 1.0f / 4096;

inline TensorType tensor_type() { return {DType::kF32, {kWidth}}; }

// An instruction whose kernel is `run`.
Instruction instruction(std::string op, std::vector<BufferRef> inputs, std::vector<BufferRef> outputs,
                        std::function<void(const KernelArgs&)> run);

const float* input(const KernelArgs& args, std::size_t i);
float* output(const KernelArgs& args, std::size_t i);

struct PipelineSpec {
  std::vector<std::size_t> devices;  // of the stages
  bool training = true;
  bool takes_turns = false;  // lanes hold one micro-batch only
  std::int64_t accumulation = 1;
  std::size_t replicas = 1;
  ReplicaGrouping weight_grouping = {};
  ReplicaGrouping input_grouping = {.kind = ReplicaGrouping::Kind::kNone};
  // Called by every kernel before it computes: "forward 2", "backward 0", "update 1" and so on.
  std::function<void(const std::string& what, const StepContext& step)> hook = {};
};

// Stage s is lane s. In training it has the depth of a "one forward, one backward" schedule, else 2; 1 to take turns.
// Variables: "w<s>", initially a little above 1, and in training "a<s>", the accumulator.
std::shared_ptr<Program> pipeline_program(const PipelineSpec& spec);

// The same chain computed one micro-batch after the other.
class PlainChain {
 public:
  explicit PlainChain(const PipelineSpec& spec);
  // Returns the outputs of all micro-batches, [D][G][R]; weights change as in training if the spec says so.
  V run(const V& x, std::int64_t device_iterations);
  const V& weight(std::size_t replica, std::size_t stage) const { return weights_[replica][stage]; }

 private:
  void update();

  PipelineSpec spec_;
  std::vector<std::vector<V>> weights_, sums_;  // per replica and stage
};

// Inputs for `count` micro-batches that make every product and sum inexact.
V chain_inputs(std::int64_t count, int variant = 0);

V read(const Executor& executor, const std::string& name, std::size_t count = kWidth);
void write(Executor& executor, const std::string& name, const V& values);

// Runs D iterations with all outputs returned, [D][G][R].
V run_all(Executor& executor, const V& x, std::int64_t device_iterations);

}  // namespace aspen::testing
