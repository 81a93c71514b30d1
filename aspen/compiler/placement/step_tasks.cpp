#include "aspen/compiler/placement/step_tasks.h"

#include <algorithm>

#include "aspen/compiler/evaluate.h"
#include "aspen/compiler/placement/stages.h"
#include "aspen/compiler/placement/turn_tasks.h"

namespace aspen {
namespace {

std::string place_of(const Op& op) {
  std::string where = describe(op.location);
  return where.empty() ? "" : fmt::format(" (captured at {})", where);
}

// F0 F1 ... F(N-1)+B(N-1) ... B1 B0: a task per stage and direction, the last stage turns in one go.
class StageTasks {
 public:
  StageTasks(Graph& graph, const CompileOptions& options)
      : graph_(graph), options_(options), stages_(graph), count_(static_cast<std::int64_t>(stages_.size())),
        is_remade_(graph), ops_(placed_ops(graph, is_remade_)),
        has_backward_(std::any_of(ops_.begin(), ops_.end(), [](const Op* op) { return op->backward; })) {}

  void run() {
    check_length();
    for (Op* op : ops_) place(*op);
    make_lanes();
    make_tasks();
  }

 private:
  // Fewer micro-batches than this would leave stages without work all the time.
  void check_length() const {
    if (count_ == 1) return;
    std::int64_t stages = std::max(count_, options_.num_stages);
    std::int64_t needed = options_.training ? 2 * stages - 1 : stages;
    std::int64_t given = options_.training ? options_.gradient_accumulation : options_.device_iterations;
    if (given >= needed) return;
    throw UserError(
        "{} over {} pipeline stages{} needs {} of at least {} ({}); it is {}. Set {}({}) or more, or put the model on "
        "fewer IPUs.",
        options_.training ? "training" : "inference", stages,
        stages == count_ ? "" : " (1 + changes of the IPU from block to block, beginning on IPU 0)",
        options_.training ? "gradient accumulation" : "device iterations", needed,
        options_.training ? "2 x stages - 1" : "the number of stages", given,
        options_.training ? "Training.gradientAccumulation" : "deviceIterations", needed);
  }

  std::int64_t forward_task(std::int64_t stage) const { return stage; }
  std::int64_t backward_task(std::int64_t stage) const { return 2 * count_ - 2 - stage; }

  // Where its stage and direction say, or later if an input is made later. A gradient with uses in several stages may
  // need that; what the user wrote must not.
  void place(Op& op) {
    auto stage = static_cast<std::int64_t>(stages_.index_of(op.placement));
    op.task = op.backward ? backward_task(stage) : forward_task(stage);
    for (const Op* producer : placed_producers(op, is_remade_)) {
      if (producer->task <= op.task) continue;
      if (!op.backward) fail_backwards(op, *producer);
      op.task = producer->task;
    }
  }

  [[noreturn]] static void fail_backwards(const Op& op, const Op& producer) {
    throw UserError(
        "[{}] in stage {}{} reads what {} in stage {}{} computes. Stage ids must not decrease along the data flow in a "
        "pipeline; number the blocks in the order in which they run, for example with AutoStage.AutoIncrement.",
        op.name(), op.placement.stage, place_of(op), producer.name(), producer.placement.stage, place_of(producer));
  }

  void make_lanes() {
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      graph_.lanes.push_back({.device = stages_.device(stage), .depth = 1});
    }
    if (count_ > 1) set_depths();
  }

  // Micro-batches between the moment something is first sent to a stage and the end of its last task, when every
  // stage takes equally long.
  void set_depths() {
    std::vector<std::int64_t> lowest(stages_.size());  // the earliest stage that sends to it
    for (std::int64_t stage = 0; stage < count_; ++stage) lowest[stage] = stage;
    for (const Op* op : ops_) {
      for (const Op* producer : placed_producers(*op, is_remade_)) {
        std::int64_t& known = lowest[stage_of_task(op->task)];
        known = std::min(known, stage_of_task(producer->task));
      }
    }
    for (std::int64_t stage = 0; stage < count_; ++stage) {
      std::int64_t distance = stage - lowest[stage];
      graph_.lanes[stage].depth = options_.training ? (count_ - stage) + std::max<std::int64_t>(1, distance)
                                                    : std::max<std::int64_t>(2, distance + 1);
    }
  }

  std::int64_t stage_of_task(std::int64_t task) const { return task < count_ ? task : 2 * count_ - 2 - task; }

  void make_tasks() {
    std::int64_t count = has_backward_ ? backward_task(0) + 1 : count_;
    for (std::int64_t task = 0; task < count; ++task) {
      std::int64_t stage = stage_of_task(task);
      std::string name = stages_.name(stage);
      bool is_turn = stage + 1 == count_ && has_backward_;
      if (!is_turn) name = fmt::format("{} of {}", task < count_ ? "forward" : "backward", name);
      graph_.tasks.push_back({.name = count == 1 ? "step" : name,
                              .device = stages_.device(stage),
                              .lane = stage,
                              .stage = stages_.placement(stage).stage});
    }
  }

  Graph& graph_;
  const CompileOptions& options_;
  Stages stages_;
  std::int64_t count_;
  RemadeOps is_remade_;
  std::vector<Op*> ops_;
  bool has_backward_;
};

}  // namespace

void make_step_tasks(Graph& graph, const CompileOptions& options) {
  if (options.execution == Execution::kPipelined) {
    StageTasks(graph, options).run();
  } else {
    make_turn_tasks(graph, options);
  }
}

}  // namespace aspen
