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

// What is known of the values of a graph, by id. All groups use the same tables, as there may be many.
struct ValueTables {
  explicit ValueTables(const Graph& graph)
      : node(graph.num_values(), -1), root(graph.num_values(), -1), remaining_uses(graph.num_values(), 0),
        uses_by_op(graph.num_values(), 0) {}

  std::vector<int> node;            // of the op that makes it, in the group of that op
  std::vector<std::int64_t> root;   // the value whose buffer it shares, if that is known in the group of its op
  std::vector<int> remaining_uses;  // of a root, in the group under way
  std::vector<int> uses_by_op;      // by the op being looked at; 0 again afterwards
};

// List scheduling over one group. Ops are numbered in their present order, which is already a good one; an op runs
// before its turn only if it frees more memory than it takes.
class Scheduler {
 public:
  Scheduler(Graph& graph, ValueTables& values, const std::vector<Op*>& ops)
      : graph_(graph), values_(values), first_(*ops.front()) {
    for (Op* op : ops) {
      for (const Value* output : op->outputs()) values_.node[output->id()] = static_cast<int>(nodes_.size());
      nodes_.push_back({.op = op});
    }
  }

  std::vector<Op*> run() {
    find_roots();
    add_data_edges();
    add_variable_edges();
    find_growths();
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) note(i);
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
    std::int64_t bytes_taken = 0;
    std::size_t first_input = 0, end_of_inputs = 0;  // in inputs_
  };
  // An input whose memory is free after its last use.
  struct Input {
    std::int64_t root;
    int uses;  // by the op
    std::int64_t bytes;
  };

  // Puts an op that lacks nothing it needs where it belongs.
  void note(int i) {
    const Node& node = nodes_[i];
    if (node.hard > 0 || node.is_done || node.is_source) return;
    if (node.soft > 0) {
      wishing_.insert(i);
    } else {
      wishing_.erase(i);
      ready_.insert(i);
    }
  }

  void add_edge(int before, int after) {
    nodes_[before].hard_after.push_back(after);
    ++nodes_[after].hard;
  }

  // The op that makes the value, or -1 when it comes from elsewhere.
  int producer_of(const Value* value) const { return is_made_here(value) ? values_.node[value->id()] : -1; }

  // Also forgets the uses that other groups have counted.
  void find_roots() {
    for (const Node& node : nodes_) {
      for (const Value* input : node.op->inputs()) {
        if (input != nullptr) values_.remaining_uses[root(input)] = 0;
      }
      for (const Value* output : node.op->outputs()) {
        values_.root[output->id()] = node.op->def().is_alias() ? root(node.op->input(0)) : output->id();
        values_.remaining_uses[root(output)] = 0;
      }
    }
  }

  // Reads after writes; impure ops keep their order, but for assigns, which follow the reads of their variables.
  // Sources have no edges, since they come on demand; what a load reads must be there for the user of the load.
  void add_data_edges() {
    int last_effect = -1;
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      Op* op = nodes_[i].op;
      const bool is_impure = op->is_impure();
      bool is_assign = op->is("assign");
      bool is_fetched = op->num_inputs() == 0 || op->is("load") || op->is("replica_gather");
      nodes_[i].is_source = is_fetched && !is_impure && is_used(*op);
      for (std::size_t k = is_assign ? 1 : 0; k < op->num_inputs(); ++k) {
        const Value* input = op->input(k);
        if (input == nullptr) continue;
        int producer = producer_of(input);
        if (producer >= 0 && nodes_[producer].is_source) producer = stored_for(producer);
        if (producer >= 0 && !nodes_[i].is_source) add_edge(producer, i);
        ++values_.remaining_uses[root(input)];
      }
      for (const Value* output : op->outputs()) {
        if (output->is_output() || is_used_elsewhere(*output)) ++values_.remaining_uses[root(output)];  // never freed
      }
      if (!is_impure || is_assign) continue;
      if (last_effect >= 0) add_edge(last_effect, i);
      last_effect = i;
    }
  }

  bool is_here(const Op* op) const { return op->section == first_.section && group_of(*op) == group_of(first_); }
  bool is_made_here(const Value* value) const { return value->producer() != nullptr && is_here(value->producer()); }

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
  std::int64_t root(const Value* value) const { return is_made_here(value) ? values_.root[value->id()] : value->id(); }

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
        int producer = producer_of(nodes_[found->second].op->input(1));
        if (producer >= 0 && producer != i) add_soft_edge(i, producer);
      }
    }
  }

  void add_soft_edge(int before, int after) {
    nodes_[before].soft_after.push_back(after);
    ++nodes_[after].soft;
  }

  // What growth() has to know of each op, found once: it is asked again and again.
  void find_growths() {
    for (Node& node : nodes_) {
      const Op& op = *node.op;
      if (!op.def().is_alias() && !is_transfer(op)) {  // a transfer writes into memory outside the task
        for (const Value* output : op.outputs()) node.bytes_taken += is_assigned(output) ? 0 : size(output);
      }
      node.first_input = inputs_.size();
      count_uses(op, 1);
      for (const Value* input : op.inputs()) {
        if (input == nullptr || input->variable() != nullptr || is_from_elsewhere(input)) continue;
        inputs_.push_back({root(input), values_.uses_by_op[input->id()], size(input)});
      }
      count_uses(op, -1);
      node.end_of_inputs = inputs_.size();
    }
  }

  void count_uses(const Op& op, int by) {
    for (const Value* input : op.inputs()) {
      if (input != nullptr) values_.uses_by_op[input->id()] += by;
    }
  }

  // Bytes the op takes minus bytes it frees.
  std::int64_t growth(int i) const {
    const Node& node = nodes_[i];
    std::int64_t bytes = node.bytes_taken;
    for (std::size_t k = node.first_input; k < node.end_of_inputs; ++k) {
      if (values_.remaining_uses[inputs_[k].root] == inputs_[k].uses) bytes -= inputs_[k].bytes;
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
    if (!wishing_.empty()) return *wishing_.begin();
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
    wishing_.erase(i);
    result_.push_back(node.op);
    for (std::size_t k = node.op->is("assign") ? 1 : 0; k < node.op->num_inputs(); ++k) {
      if (node.op->input(k) != nullptr) --values_.remaining_uses[root(node.op->input(k))];
    }
    for (int after : node.hard_after) {
      --nodes_[after].hard;
      note(after);
    }
    for (int after : node.soft_after) {
      --nodes_[after].soft;
      note(after);
    }
  }

  Graph& graph_;
  ValueTables& values_;
  const Op& first_;  // of the group
  std::vector<Node> nodes_;
  std::vector<Input> inputs_;  // of all ops
  std::set<int> ready_;
  std::set<int> wishing_;  // lack nothing but what should come first
  std::vector<Op*> result_;
};

}  // namespace

void schedule(Graph& graph, const PassContext&) {
  std::map<std::pair<Section, std::int64_t>, std::vector<Op*>> groups;  // in the order in which they run
  for (const auto& op : graph.ops()) groups[{op->section, group_of(*op)}].push_back(op.get());
  ValueTables values(graph);
  for (const auto& [key, ops] : groups) {
    for (Op* op : Scheduler(graph, values, ops).run()) graph.move_before(op, nullptr);
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
