// From a captured graph to a program. The passes and their order are in passes/pipeline.cpp.
#pragma once

#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aspen/backends/api/kernel.h"
#include "aspen/compiler/choice_table.h"
#include "aspen/compiler/ir/graph.h"
#include "aspen/compiler/stage_cut.h"
#include "aspen/ops/optimizer/optimizer.h"
#include "aspen/runtime/program.h"

namespace aspen {

// How parameters are updated. The numbers of a group live in a variable of kind kSetting named
// "settings___<group index>", f32[kNumSettings] in the order of enum Setting, so that the host may change them
// between runs.
struct OptimizerSpec {
  std::string kind;  // "sgd", "adam", "adamw", "rmsprop", "lamb"; empty: parameters stay as they are
  struct Group {
    std::vector<std::string> parameters;  // names of variables
    bool momentum = false;                // sgd, rmsprop: keeps a velocity
    bool nesterov = false;
  };
  std::vector<Group> groups;
  bool bias_correction = true;
  bool centered = false;
  bool tf_variant = false;
  bool scales_loss =
      false;  // whether kLossScaling of group 0 may differ from 1; false spares a pass over the gradients
  double max_grad_norm = std::numeric_limits<double>::infinity();
  // What is kept between updates, f32 or f16: sums of gradients over micro-batches and replicas, velocities and means
  // of gradients, means of their squares.
  DType accumulator_type = DType::kF32;
  DType first_order_type = DType::kF32;
  DType second_order_type = DType::kF32;
  bool keeps_parameter_types = false;  // sums and states have the types of their parameters instead
};

// Keeps the loss scaling where half gradients neither overflow nor vanish: after an update it is halved if more than
// `threshold` of all gradients are larger than `bin_edge` times the largest half, and doubled otherwise.
struct AutomaticLossScaling {
  double bin_edge = 0.125;
  double threshold = 1e-7;
  std::int64_t period = 1;     // updates between two changes
  bool only_products = false;  // looks at the gradients of matrix products and convolutions alone
};

// How the devices a model is placed on work together.
enum class Execution : std::uint8_t {
  kPipelined,  // at the same time, on different micro-batches
  kSharded,    // one after the other
  kPhased,     // one phase after the other; what a phase does not need is kept off the device
};

// What backward passes compute again instead of keeping it from the forward pass.
enum class Recompute : std::uint8_t {
  kNothing,
  kStages,  // all but the last stage of a pipeline, from what the stage received; nothing where there is no pipeline
  kNorms,   // normalisations and activations, where that keeps less
  kAll,     // everything between two values marked with `checkpoint`
  kParts,   // the same, and besides the marked values those that choose_checkpoints.h finds
};

// Where tensors of one kind are kept.
struct TensorLocation {
  bool off_device = false;
  bool sharded = false;                    // one shard per replica; variables only
  std::int64_t min_elements = 2;           // smaller tensors stay on the device
  std::int64_t min_shard_elements = 8192;  // smaller tensors are not sharded
};

struct TensorLocations {
  TensorLocation weights, optimizer_state, accumulators, activations;
};

// Phased execution: which values that live longer than a phase leave the device. Of activations that are kept off the
// device anyway, it says when.
enum class Liveness : std::uint8_t {
  kAlwaysLive,                      // activations that are needed later than in the next phase
  kOffDeviceAfterForward,           // what the backward pass needs; loads of a phase overlap with the phase before it
  kOffDeviceAfterForwardNoOverlap,  // the same, loaded by the phase itself: less memory, more time
  kOffDeviceAfterEachPhase,         // what any later phase needs
};

// What makes a program take less memory of the devices, from the one that costs the least time on.
enum class Remedy : std::uint8_t {
  kOptimizerStateOffDevice,
  kRecomputeNorms,
  kRecomputeParts,
  kAccumulatorsOffDevice,
  kActivationsOffDevice,
  kWeightsOffDevice,
};
inline constexpr std::size_t kNumRemedies = 6;

// How much memory the program may take on each device. A program that needs more is a UserError; see
// passes/fit_budget.h.
struct MemoryBudget {
  std::size_t bytes = 0;                            // of every device; 0: no limit
  std::map<std::int64_t, std::size_t> of_device;    // of some, in its place
  bool automatic = false;                           // remedies are chosen until the program fits
  std::function<std::string(Remedy)> spelled = {};  // how the user asks for one; nullptr: that is not known

  bool is_set() const { return bytes != 0 || !of_device.empty(); }
  std::size_t of(std::int64_t device) const {
    const auto found = of_device.find(device);
    return found == of_device.end() ? bytes : found->second;
  }
};

bool verifies_by_default();
std::vector<std::string> skipped_by_default();

// A tensor of the graph that the host is given besides the graph's outputs; see passes/anchor_tensors.h. The program
// has an output "anchor___<name>" for it.
struct Anchor {
  std::string name;    // chosen by who asks
  std::string tensor;  // one of Program::tensor_names
};
inline constexpr const char* kAnchorPrefix = "anchor___";

struct CompileOptions {
  bool training = false;
  std::int64_t gradient_accumulation = 1;
  bool mean_reduction = true;          // over micro-batches and replicas; false: sum
  bool running_mean = false;           // accumulators hold the mean so far rather than the sum
  std::int64_t device_iterations = 1;  // per run; for the rules of pipelines
  Execution execution = Execution::kPipelined;
  // Forward stages the model was written with, for the rules of pipelines: more than its ops show if blocks are empty
  // or none is on device 0. 0: those of the ops.
  std::int64_t num_stages = 0;
  Recompute recompute = Recompute::kStages;
  TensorLocations locations;
  MemoryBudget memory_budget;
  StageCut stage_cut;
  Liveness liveness = Liveness::kAlwaysLive;
  std::int64_t prefetch_depth = 1;       // micro-batches that overlapped inputs arrive ahead of their use
  bool separate_backward_phase = false;  // the last phase's backward pass is a phase of its own
  std::size_t replicas = 1;
  ReplicaGrouping input_grouping{.kind = ReplicaGrouping::Kind::kNone};
  bool checks_floats = false;
  std::vector<Anchor> anchors;
  bool holds_inputs = false;  // nothing is transferred: inputs are variables, see passes/hold_inputs.h; outputs stay
  // Whether long sums of half products are kept in half: of matrix products, of convolutions.
  bool half_dot_partials = false, half_conv_partials = false;
  bool bfloat16_products = false;    // those of float32 that are worth it: see passes/round_products.h
  bool stochastic_rounding = false;  // half results are rounded up or down at random
  std::optional<AutomaticLossScaling> automatic_loss_scaling;
  OptimizerSpec optimizer;
  // Pointwise ops on tensors of so many elements run in groups: see passes/group_elementwise.h.
  std::int64_t min_group_elements = 8192;
  // Passes that are left out. Said by the environment variable ASPEN_SKIP_PASSES, names of optional ones with commas
  // between them.
  std::vector<std::string> skip_passes = skipped_by_default();
  // Whether the graph is checked after every pass, against ir/verifier.h and what the pass promises, rather than once
  // after the last. Said by the environment variable ASPEN_VERIFY (1 or 0); without it, builds with assertions do.
  bool verify_passes = verifies_by_default();
  std::function<void(double fraction)> progress;
  // Told how long each part of the compilation took; one within another has a longer name: "passes/differentiate".
  std::function<void(const std::string& phase, std::chrono::nanoseconds duration)> timed;
  // Where choices among close kernels are looked up and kept; nullptr: rules decide alone. See choose_kernels.h.
  std::shared_ptr<ChoiceTable> choices;
};

// Consumes the graph's structure: afterwards it is the scheduled training graph, as the program runs it.
// State of the optimiser appears as variables "Accl1___<parameter>", "Accl2___<parameter>" and the like.
std::unique_ptr<Program> compile(Graph& graph, const CompileOptions& options, const Backend& backend);

}  // namespace aspen
