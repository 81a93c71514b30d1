#include "aspen/compiler/passes/schedule.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "aspen/compiler/ir/op_def.h"

namespace aspen {
namespace {

// How many ready ops are looked at for one that frees memory; keeps the pass linear on very wide graphs.
constexpr int kWindow = 64;

// The ops that are ordered among themselves: a task, or a whole section as long as there are no tasks.
std::int64_t group_of(const Op& op) { return op.task >= 0 ? op.task : -1 - static_cast<std::int64_t>(op.section); }

bool is_transfer(const Op& op) { return op.is("send") || op.is("store"); }

// List scheduling over one group. Ops are numbered in their present order, which is already a good one; an op runs
// before its turn only if it frees more memory than it takes.
class Scheduler {
 public:
  Scheduler(Graph& graph, const std::vector<Op*>& ops)
      : graph_(graph), remaining_uses_(graph.num_values(), 0), root_(graph.num_values(), -1) {
    for (Op* op : ops) {
      index_.emplace(op, static_cast<int>(nodes_.size()));
      nodes_.push_back({.op = op});
    }
  }

  std::vector<Op*> run() {
    add_data_edges();
    add_variable_edges();
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      if (is_ready(i)) ready_.insert(i);
    }
    while (result_.size() < nodes_.size()) take(choose());
    return std::move(result_);
  }

 private:
  struct Node {
    Op* op = nullptr;
    int hard = 0;  // ops that must come first and have not
    int soft = 0;  // ops that should come first and have not
    std::vector<int> hard_after = {}, soft_after = {};
    bool is_source = false;  // no inputs, or a load: made when its first user is
    bool is_done = false;
  };

  bool is_ready(int i) const {
    const Node& node = nodes_[i];
    return node.hard == 0 && node.soft == 0 && !node.is_done && !node.is_source;
  }

  void add_edge(int before, int after) {
    nodes_[before].hard_after.push_back(after);
    ++nodes_[after].hard;
  }

  // The op that makes the value, or -1 when it comes from elsewhere.
  int producer_of(const Value* value) const {
    auto found = index_.find(value->producer());
    return found == index_.end() ? -1 : found->second;
  }

  // Reads after writes; impure ops keep their order, but for assigns, which follow the reads of their variables.
  // Sources have no edges, since they come on demand; what a load reads must be there for the user of the load.
  void add_data_edges() {
    int last_effect = -1;
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      Op* op = nodes_[i].op;
      const OpDef& def = op->def();
      bool is_assign = op->is("assign");
      bool is_fetched = op->num_inputs() == 0 || op->is("load") || op->is("replica_gather");
      nodes_[i].is_source = is_fetched && !def.is_impure() && is_used(*op);
      for (std::size_t k = is_assign ? 1 : 0; k < op->num_inputs(); ++k) {
        const Value* input = op->input(k);
        if (input == nullptr) continue;
        int producer = producer_of(input);
        if (producer >= 0 && nodes_[producer].is_source) producer = stored_for(producer);
        if (producer >= 0 && !nodes_[i].is_source) add_edge(producer, i);
        ++remaining_uses_[root(input)];
      }
      for (const Value* output : op->outputs()) {
        if (def.is_alias()) root_[output->id()] = root(op->input(0));
        if (output->is_output() || is_used_elsewhere(*output)) ++remaining_uses_[root(output)];  // never freed
      }
      if (!def.is_impure() || is_assign) continue;
      if (last_effect >= 0) add_edge(last_effect, i);
      last_effect = i;
    }
  }

  bool is_here(const Op* op) const { return index_.count(op) != 0; }

  bool is_used(const Op& op) const {
    auto outputs = op.outputs();
    return std::any_of(outputs.begin(), outputs.end(), [&](const Value* output) {
      return std::any_of(output->users().begin(), output->users().end(), [&](const Op* user) { return is_here(user); });
    });
  }

  bool is_used_elsewhere(const Value& value) const {
    return !std::all_of(value.users().begin(), value.users().end(), [&](const Op* user) { return is_here(user); });
  }

  // The store that a load of this group reads from, if it is in the group.
  int stored_for(int source) const {
    const Op& op = *nodes_[source].op;
    return op.num_inputs() == 0 ? -1 : producer_of(op.input(0));
  }

  // The value whose buffer this one shares.
  std::int64_t root(const Value* value) const { return root_[value->id()] < 0 ? value->id() : root_[value->id()]; }

  // An assign comes after every read of its variable. So should the op that makes the assigned value: then it can
  // write straight into the variable. That is a wish only: two variables may be made from each other.
  void add_variable_edges() {
    std::unordered_map<std::int64_t, int> assigns;  // variable value -> assign
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      if (nodes_[i].op->is("assign")) assigns.emplace(nodes_[i].op->input(0)->id(), i);
    }
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      const Op* op = nodes_[i].op;
      for (std::size_t k = op->is("assign") ? 1 : 0; k < op->num_inputs(); ++k) {
        if (op->input(k) == nullptr) continue;
        auto found = assigns.find(root(op->input(k)));
        if (found == assigns.end() || found->second == i) continue;
        if (op->is("assign")) {
          add_soft_edge(i, found->second);
        } else {
          add_edge(i, found->second);
        }
        if (op->is("load")) continue;  // the variable is off the device: nothing can be written straight into it
        const Op* producer = nodes_[found->second].op->input(1)->producer();
        if (producer != nullptr && producer != op && index_.count(producer) != 0) add_soft_edge(i, index_.at(producer));
      }
    }
  }

  void add_soft_edge(int before, int after) {
    nodes_[before].soft_after.push_back(after);
    ++nodes_[after].soft;
  }

  // Bytes the op takes minus bytes it frees.
  std::int64_t growth(int i) const {
    const Op& op = *nodes_[i].op;
    std::int64_t bytes = 0;
    if (!op.def().is_alias() && !is_transfer(op)) {  // a transfer writes into memory outside the task
      for (const Value* output : op.outputs()) bytes += is_assigned(output) ? 0 : size(output);
    }
    for (std::size_t k = 0; k < op.num_inputs(); ++k) {
      const Value* input = op.input(k);
      if (input == nullptr || input->variable() != nullptr || is_from_elsewhere(input)) continue;
      if (remaining_uses_[root(input)] == count(op, input)) bytes -= size(input);
    }
    return bytes;
  }

  bool is_from_elsewhere(const Value* value) const {
    return value->producer() != nullptr && !is_here(value->producer());
  }

  static std::int64_t size(const Value* value) { return static_cast<std::int64_t>(value->type().bytes()); }

  static bool is_assigned(const Value* value) {
    return std::any_of(value->users().begin(), value->users().end(), [](const Op* user) { return user->is("assign"); });
  }

  static int count(const Op& op, const Value* value) {
    return static_cast<int>(std::count(op.inputs().begin(), op.inputs().end(), value));
  }

  int choose() {
    if (ready_.empty()) return choose_despite_wishes();
    int first = *ready_.begin(), seen = 0;
    for (int i : ready_) {
      if (growth(i) < 0) return i;
      if (++seen == kWindow) break;
    }
    return first;
  }

  // Wishes that cannot all be met: the first op that lacks nothing it needs.
  int choose_despite_wishes() const {
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      if (!nodes_[i].is_done && nodes_[i].hard == 0 && !nodes_[i].is_source) return i;
    }
    throw InternalError("the ops of graph {} depend on each other in a circle", graph_.name());
  }

  void take(int i) {
    Node& node = nodes_[i];
    for (const Value* input : node.op->inputs()) {
      int producer = input == nullptr ? -1 : producer_of(input);
      if (producer >= 0 && nodes_[producer].is_source && !nodes_[producer].is_done) finish(producer);
    }
    finish(i);
  }

  void finish(int i) {
    Node& node = nodes_[i];
    node.is_done = true;
    ready_.erase(i);
    result_.push_back(node.op);
    for (std::size_t k = node.op->is("assign") ? 1 : 0; k < node.op->num_inputs(); ++k) {
      if (node.op->input(k) != nullptr) --remaining_uses_[root(node.op->input(k))];
    }
    for (int after : node.hard_after) {
      --nodes_[after].hard;
      if (is_ready(after)) ready_.insert(after);
    }
    for (int after : node.soft_after) {
      --nodes_[after].soft;
      if (is_ready(after)) ready_.insert(after);
    }
  }

  Graph& graph_;
  std::vector<Node> nodes_;
  std::unordered_map<const Op*, int> index_;
  std::vector<int> remaining_uses_;  // by value id of the root
  std::vector<std::int64_t> root_;   // by value id; -1: itself
  std::set<int> ready_;
  std::vector<Op*> result_;
};

}  // namespace

void schedule(Graph& graph, const PassContext&) {
  std::map<std::pair<Section, std::int64_t>, std::vector<Op*>> groups;  // in the order in which they run
  for (const auto& op : graph.ops()) groups[{op->section, group_of(*op)}].push_back(op.get());
  for (const auto& [key, ops] : groups) {
    for (Op* op : Scheduler(graph, ops).run()) graph.move_before(op, nullptr);
  }
}

const Condition kGroupedByTask{"grouped_by_task", [](const Graph& graph) -> std::string {
                                 const Op* last = nullptr;
                                 for (const auto& op : graph.ops()) {
                                   if (last != nullptr && op->task < last->task) {
                                     return fmt::format("{} of task {} comes after {} of task {}", op->name(), op->task,
                                                        last->name(), last->task);
                                   }
                                   last = op.get();
                                 }
                                 return "";
                               }};

const Condition kAssignedAfterReads{
    "assigned_after_reads", [](const Graph& graph) -> std::string {
      std::set<std::pair<std::int64_t, const Value*>> written;
      for (const auto& op : graph.ops()) {
        // An assign that reads another variable is exempt: two variables may swap, and the memory plan saves one.
        if (op->is("assign")) {
          written.emplace(group_of(*op), op->input(0));
          continue;
        }
        for (const Value* input : op->inputs()) {
          if (input != nullptr && input->variable() != nullptr && written.count({group_of(*op), input}) != 0) {
            return fmt::format("{} reads variable \"{}\" after it was assigned", op->name(), input->variable()->name);
          }
        }
      }
      return "";
    }};

}  // namespace aspen
