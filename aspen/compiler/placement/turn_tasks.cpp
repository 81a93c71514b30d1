#include "aspen/compiler/placement/turn_tasks.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "aspen/compiler/evaluate.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/placement/stages.h"

namespace aspen {
namespace {

std::string phase_of(const Op& op) {
  std::string where = describe(op.location);
  return fmt::format("phase {}{}", op.placement.phase, where.empty() ? "" : fmt::format(" (captured at {})", where));
}

[[noreturn]] void fail_backwards(const Op& op, const Op& producer) {
  throw UserError(
      "[{}] in {} reads what {} in {} computes. Phase numbers must not decrease along the data flow; put the block "
      "into "
      "phase {} or a later one.",
      op.name(), phase_of(op), producer.name(), phase_of(producer), producer.placement.phase);
}

// The ops run in turns, one after the other: with N phases, N turns there and N back. Without phases there is one of
// each.
class Turns {
 public:
  Turns(const std::vector<Op*>& ops, const RemadeOps& is_remade, const CompileOptions& options)
      : is_phased_(options.execution == Execution::kPhased), is_apart_(is_phased_ && options.separate_backward_phase) {
    for (const Op* op : ops) numbers_.emplace(number_of(*op), 0);
    for (auto& [number, index] : numbers_) {
      index = count_++;
      in_order_.push_back(number);
    }
    for (const Op* op : ops) {
      std::int64_t& turn = turns_[op];
      turn = op->backward ? 2 * count_ - 1 - numbers_.at(number_of(*op)) : numbers_.at(number_of(*op));
      for (const Op* producer : placed_producers(*op, is_remade)) {
        if (turns_.at(producer) <= turn) continue;
        if (!op->backward) fail_backwards(*op, *producer);
        turn = turns_.at(producer);
      }
      has_backward_ = has_backward_ || op->backward;
    }
  }

  std::int64_t of(const Op& op) const { return turns_.at(&op); }
  // The turns in which a task may go on: those of a phase that goes there and back count as one.
  std::int64_t phase(std::int64_t turn) const { return turn - (turn >= count_ && !is_apart_ ? 1 : 0); }

  std::string name(std::int64_t phase) const {
    std::int64_t index = phase < count_ ? phase : 2 * count_ - (is_apart_ ? 1 : 2) - phase;
    bool goes_back = index + 1 == count_ && !is_apart_ && has_backward_;
    return fmt::format("{}phase {}",
                       goes_back        ? ""
                       : phase < count_ ? "forward of "
                                        : "backward of ",
                       in_order_[index]);
  }

 private:
  std::int64_t number_of(const Op& op) const { return is_phased_ ? op.placement.phase : 0; }

  bool is_phased_, is_apart_, has_backward_ = false;
  std::int64_t count_ = 0;
  std::map<std::int64_t, std::int64_t> numbers_;  // of phases, as placed -> in order
  std::vector<std::int64_t> in_order_;            // the other way round
  std::unordered_map<const Op*, std::int64_t> turns_;
};

class TurnTasks {
 public:
  TurnTasks(Graph& graph, const CompileOptions& options)
      : graph_(graph), is_phased_(options.execution == Execution::kPhased), is_remade_(graph),
        ops_(placed_ops(graph, is_remade_)), turns_(ops_, is_remade_, options), missing_(ops_.size(), 0) {}

  void run() {
    prepare();
    if (ops_.empty()) begin_task({}, 0);
    while (!all_ready_.empty()) {
      std::size_t next = *all_ready_.begin();
      std::int64_t phase = turns_.phase(now_);
      begin_task(ops_[next]->placement, phase);
      auto& ready = ready_[ops_[next]->placement.device];
      while (!ready.empty() && turns_.phase(now_) == phase) take(*ready.begin());
    }
    name_tasks();
  }

 private:
  void prepare() {
    std::unordered_map<const Op*, std::size_t> index;
    for (std::size_t i = 0; i < ops_.size(); ++i) index.emplace(ops_[i], i);
    after_.resize(ops_.size());
    std::map<std::int64_t, std::size_t> last_impure;  // by turn
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      const Op& op = *ops_[i];
      std::int64_t turn = turns_.of(op);
      ++left_[turn];
      for (const Op* producer : placed_producers(op, is_remade_)) add_order(index.at(producer), i);
      if (!op.is_impure() || op.is("assign")) continue;
      auto [last, is_first] = last_impure.emplace(turn, i);
      if (is_first) continue;
      add_order(last->second, i);
      last->second = i;
    }
    if (!left_.empty()) now_ = left_.begin()->first;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (missing_[i] == 0) make_ready(i);
    }
  }

  void add_order(std::size_t before, std::size_t after) {
    after_[before].push_back(after);
    ++missing_[after];
  }

  void make_ready(std::size_t i) {
    if (turns_.of(*ops_[i]) > now_) {
      held_[turns_.of(*ops_[i])].push_back(i);
    } else {
      ready_[ops_[i]->placement.device].insert(i);
      all_ready_.insert(i);
    }
  }

  void begin_task(const Placement& place, std::int64_t phase) {
    auto [found, is_new] = lanes_.emplace(place.device, static_cast<std::int64_t>(graph_.lanes.size()));
    if (is_new) graph_.lanes.push_back({.device = place.device, .depth = 1});
    graph_.tasks.push_back({.device = place.device, .lane = found->second, .stage = place.stage, .phase = phase});
  }

  void take(std::size_t i) {
    ops_[i]->task = static_cast<std::int64_t>(graph_.tasks.size()) - 1;
    ready_[ops_[i]->placement.device].erase(i);
    all_ready_.erase(i);
    for (std::size_t next : after_[i]) {
      if (--missing_[next] == 0) make_ready(next);
    }
    if (--left_.at(turns_.of(*ops_[i])) == 0) end_turn();
  }

  void end_turn() {
    left_.erase(left_.begin());
    if (left_.empty()) return;
    now_ = left_.begin()->first;
    for (std::size_t i : held_[now_]) make_ready(i);
  }

  // "step", "forward of phase 1", "forward of phase 1, part 2 on device 3"; without phases "part 2 on device 3".
  void name_tasks() {
    std::map<std::int64_t, std::int64_t> parts, numbers;  // by phase
    for (const GraphTask& task : graph_.tasks) ++parts[task.phase];
    for (GraphTask& task : graph_.tasks) {
      std::int64_t number = numbers[task.phase]++;
      if (is_phased_ && !ops_.empty()) task.name = turns_.name(task.phase);
      if (parts.at(task.phase) == 1) continue;
      task.name += fmt::format("{}part {} on device {}", task.name.empty() ? "" : ", ", number, task.device);
    }
    if (graph_.tasks.size() == 1) graph_.tasks[0].name = "step";
  }

  Graph& graph_;
  bool is_phased_;
  RemadeOps is_remade_;
  std::vector<Op*> ops_;
  Turns turns_;
  std::int64_t now_ = 0;                                   // the turn whose ops run
  std::map<std::int64_t, std::size_t> left_;               // ops that have not run, by turn
  std::map<std::int64_t, std::vector<std::size_t>> held_;  // ops that could run before their turn, by turn
  std::vector<int> missing_;                               // ops that have to run first and have not
  std::vector<std::vector<std::size_t>> after_;
  std::map<std::int64_t, std::set<std::size_t>> ready_;  // by device
  std::set<std::size_t> all_ready_;                      // the same of all devices
  std::map<std::int64_t, std::int64_t> lanes_;           // by device
};

}  // namespace

void make_turn_tasks(Graph& graph, const CompileOptions& options) { TurnTasks(graph, options).run(); }

}  // namespace aspen
