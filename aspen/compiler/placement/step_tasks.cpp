#include "aspen/compiler/placement/step_tasks.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "aspen/compiler/evaluate.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/placement/stages.h"

namespace aspen {
namespace {

std::string place_of(const Op& op) {
  std::string where = describe(op.location);
  return where.empty() ? "" : fmt::format(" (captured at {})", where);
}

// The ops whose place is decided here, in the order of the graph.
std::vector<Op*> placed_ops(const Graph& graph) {
  std::vector<Op*> result;
  for (const auto& op : graph.ops()) {
    if (op->section == Section::kStep && !is_remade(*op)) result.push_back(op.get());
  }
  return result;
}

// Ops that computed an input, except those made anew wherever they are used.
std::vector<Op*> producers_of(const Op& op) {
  std::vector<Op*> result;
  for (const Value* input : op.inputs()) {
    if (input != nullptr && input->producer() != nullptr && !is_remade(*input->producer())) {
      result.push_back(input->producer());
    }
  }
  return result;
}

std::size_t count_backward(const std::vector<Op*>& ops) {
  return static_cast<std::size_t>(std::count_if(ops.begin(), ops.end(), [](const Op* op) { return op->backward; }));
}

// F0 F1 ... F(N-1)+B(N-1) ... B1 B0: a task per stage and direction, the last stage turns in one go.
class StageTasks {
 public:
  StageTasks(Graph& graph, const CompileOptions& options)
      : graph_(graph), options_(options), is_phased_(options.execution == Execution::kPhased),
        stages_(graph, options.execution), count_(static_cast<std::int64_t>(stages_.size())), ops_(placed_ops(graph)),
        has_backward_(count_backward(ops_) > 0) {}

  void run() {
    if (!is_phased_) check_length();
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

  bool turns_in_one() const { return !(is_phased_ && options_.separate_backward_phase); }
  std::int64_t forward_task(std::int64_t stage) const { return stage; }
  std::int64_t backward_task(std::int64_t stage) const { return 2 * count_ - 1 - (turns_in_one() ? 1 : 0) - stage; }

  // Where its stage and direction say, or later if an input is made later. A gradient with uses in several stages may
  // need that; what the user wrote must not.
  void place(Op& op) {
    auto stage = static_cast<std::int64_t>(stages_.index_of(op.placement));
    op.task = op.backward ? backward_task(stage) : forward_task(stage);
    for (const Op* producer : producers_of(op)) {
      if (producer->task <= op.task) continue;
      if (!op.backward) fail_backwards(op, *producer);
      op.task = producer->task;
    }
  }

  [[noreturn]] void fail_backwards(const Op& op, const Op& producer) const {
    std::string problem = fmt::format("[{}] in {}{} reads what {} in {}{} computes.", op.name(), stage_of(op),
                                      place_of(op), producer.name(), stage_of(producer), place_of(producer));
    if (is_phased_) {
      throw UserError(
          "{} Phases and the stages in them must not decrease along the data flow; put the block into {} or a later "
          "one.",
          problem, stage_of(producer));
    }
    throw UserError(
        "{} Stage ids must not decrease along the data flow in a pipeline; number the blocks in the order in which "
        "they "
        "run, for example with AutoStage.AutoIncrement.",
        problem);
  }

  std::string stage_of(const Op& op) const {
    std::string stage = fmt::format("stage {}", op.placement.stage);
    return is_phased_ ? fmt::format("phase {}, {}", op.placement.phase, stage) : stage;
  }

  // A lane per stage in a pipeline, else one per device.
  void make_lanes() {
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      std::int64_t device = stages_.device(stage);
      if (is_phased_ && lane_of_device_.count(device) != 0) continue;
      lane_of_device_[device] = static_cast<std::int64_t>(graph_.lanes.size());
      graph_.lanes.push_back({.device = device, .depth = 1});
    }
    if (!is_phased_ && count_ > 1) set_depths();
  }

  // Micro-batches between the moment something is first sent to a stage and the end of its last task, when every
  // stage takes equally long.
  void set_depths() {
    std::vector<std::int64_t> lowest(stages_.size());  // the earliest stage that sends to it
    for (std::int64_t stage = 0; stage < count_; ++stage) lowest[stage] = stage;
    for (const Op* op : ops_) {
      for (const Op* producer : producers_of(*op)) {
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

  std::int64_t stage_of_task(std::int64_t task) const {
    return task < count_ ? task : 2 * count_ - 1 - (turns_in_one() ? 1 : 0) - task;
  }

  void make_tasks() {
    std::int64_t count = has_backward_ ? backward_task(0) + 1 : count_;
    for (std::int64_t task = 0; task < count; ++task) {
      std::int64_t stage = stage_of_task(task);
      std::string name = stages_.name(stage);
      bool is_turn = turns_in_one() && stage + 1 == count_ && has_backward_;
      if (!is_turn) name = fmt::format("{} of {}", task < count_ ? "forward" : "backward", name);
      std::int64_t device = stages_.device(stage);
      graph_.tasks.push_back({.name = count == 1 ? "step" : name,
                              .device = device,
                              .lane = is_phased_ ? lane_of_device_.at(device) : stage,
                              .stage = stages_.placement(stage).stage});
    }
  }

  Graph& graph_;
  const CompileOptions& options_;
  bool is_phased_;
  Stages stages_;
  std::int64_t count_;
  std::vector<Op*> ops_;
  bool has_backward_;
  std::unordered_map<std::int64_t, std::int64_t> lane_of_device_;
};

// One device after the other: everything that can run on a device, then the next one that has work. The whole forward
// pass comes first: what the backward pass computes again is there to be computed late. Impure ops keep their order.
class RunTasks {
 public:
  explicit RunTasks(Graph& graph)
      : graph_(graph), ops_(placed_ops(graph)), forward_left_(ops_.size() - count_backward(ops_)),
        missing_(ops_.size(), 0) {}

  void run() {
    prepare();
    if (ops_.empty()) begin_task({});
    for (std::size_t next = next_ready(); next < ops_.size(); next = next_ready()) {
      begin_task(ops_[next]->placement);
      auto& ready = ready_[ops_[next]->placement.device];
      while (!ready.empty()) take(*ready.begin());
    }
    if (graph_.tasks.size() == 1) graph_.tasks[0].name = "step";
  }

 private:
  void prepare() {
    std::unordered_map<const Op*, std::size_t> index;
    for (std::size_t i = 0; i < ops_.size(); ++i) index.emplace(ops_[i], i);
    after_.resize(ops_.size());
    std::size_t last_impure = ops_.size();
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      for (const Op* producer : producers_of(*ops_[i])) add_order(index.at(producer), i);
      if (ops_[i]->def().is_impure() && !ops_[i]->is("assign")) {
        if (last_impure < ops_.size()) add_order(last_impure, i);
        last_impure = i;
      }
      if (missing_[i] == 0) make_ready(i);
    }
  }

  void add_order(std::size_t before, std::size_t after) {
    after_[before].push_back(after);
    ++missing_[after];
  }

  void make_ready(std::size_t i) {
    if (forward_left_ > 0 && ops_[i]->backward) {
      held_.push_back(i);
    } else {
      ready_[ops_[i]->placement.device].insert(i);
    }
  }

  void release_backward() {
    for (std::size_t i : held_) make_ready(i);
    held_.clear();
  }

  std::size_t next_ready() const {
    std::size_t first = ops_.size();
    for (const auto& [device, ready] : ready_) {
      if (!ready.empty()) first = std::min(first, *ready.begin());
    }
    return first;
  }

  void begin_task(const Placement& place) {
    auto [found, is_new] = lanes_.emplace(place.device, static_cast<std::int64_t>(graph_.lanes.size()));
    if (is_new) graph_.lanes.push_back({.device = place.device, .depth = 1});
    graph_.tasks.push_back({.name = fmt::format("part {} on device {}", graph_.tasks.size(), place.device),
                            .device = place.device,
                            .lane = found->second,
                            .stage = place.stage});
  }

  void take(std::size_t i) {
    ops_[i]->task = static_cast<std::int64_t>(graph_.tasks.size()) - 1;
    ready_[ops_[i]->placement.device].erase(i);
    if (!ops_[i]->backward && --forward_left_ == 0) release_backward();
    for (std::size_t next : after_[i]) {
      if (--missing_[next] == 0) make_ready(next);
    }
  }

  Graph& graph_;
  std::vector<Op*> ops_;
  std::size_t forward_left_;
  std::vector<int> missing_;       // ops that have to run first and have not
  std::vector<std::size_t> held_;  // backward ops that could run before the forward pass is over
  std::vector<std::vector<std::size_t>> after_;
  std::map<std::int64_t, std::set<std::size_t>> ready_;  // by device
  std::map<std::int64_t, std::int64_t> lanes_;           // by device
};

}  // namespace

void make_step_tasks(Graph& graph, const CompileOptions& options) {
  if (options.execution == Execution::kSharded) {
    RunTasks(graph).run();
  } else {
    StageTasks(graph, options).run();
  }
}

}  // namespace aspen
