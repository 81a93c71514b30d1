#include "aspen/compiler/passes/group_elementwise.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <unordered_map>

#include "aspen/base/log.h"
#include "aspen/compiler/ir/body.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/group/group.h"
#include "aspen/ops/shape/shape.h"

namespace aspen {
namespace {

// Ops that follow each other in a group. Longer ones save nothing more.
constexpr std::int64_t kLongestChain = 32;

using Number = std::size_t;  // of an op, in the order of the graph

class Grouper {
 public:
  Grouper(Graph& graph, const CompileOptions& options) : graph_(graph), least_(options.min_group_elements) {
    for (const auto& op : graph.ops()) {
      numbers_.emplace(op.get(), nodes_.size());
      nodes_.push_back({.op = op.get(), .can_join = can_join(*op), .unit = nodes_.size()});
    }
  }

  void run() {
    find_levels();
    put_off();
    const bool has_joined = join();
    if (!join_slices() && !has_joined) return;
    for (const std::vector<Number>& members : ordered_units()) {
      if (members.size() == 1) {
        graph_.move_before(nodes_[members[0]].op, nullptr);
      } else {
        replace(members);
      }
    }
    log::debug("elementwise groups: {} of {} ops", num_groups_, num_grouped_);
  }

 private:
  struct Node {
    Op* op = nullptr;
    bool can_join = false;
    Number unit = 0;           // the first op of its group, once they are known
    std::int64_t level = 0;    // see find_levels
    std::int64_t chain = 1;    // ops of this level that follow each other up to this one
    std::int64_t waiting = 0;  // of a unit: results of others it has not got
    std::vector<Number> after = {};
  };

  bool can_join(const Op& op) const {
    const OpDef& def = op.def();
    if (!def.is_pointwise() || def.is_alias() || def.is_marker() || def.does_own_graphs() || !def.is_function()) {
      return false;
    }
    return op.num_outputs() == 1 && op.output()->dtype() != DType::kF16 && op.output()->type().numel() >= least_;
  }

  static bool are_alike(const Op& a, const Op& b) {
    return run_together(a, b) && a.output()->shape() == b.output()->shape();
  }

  bool may_join(const Node& a, const Node& b) const { return a.can_join && b.can_join && are_alike(*a.op, *b.op); }

  // Calls f(number) for the ops whose results an op reads, and for the impure op before an impure one.
  template <class F>
  void for_each_before(Number i, F&& f) const {
    for (const Value* input : nodes_[i].op->inputs()) {
      if (input != nullptr && input->producer() != nullptr) f(numbers_.at(input->producer()));
    }
    if (auto found = impure_before_.find(i); found != impure_before_.end()) f(found->second);
  }

  // A level grows wherever a value leaves the ops that may join its own. Ops of one level that may join and feed each
  // other are therefore not connected by way of others, which would have to run in between.
  void find_levels() {
    std::optional<Number> last_impure;
    for (Number i = 0; i < nodes_.size(); ++i) {
      Node& node = nodes_[i];
      if (node.op->is_impure()) {
        if (last_impure) impure_before_[i] = *last_impure;
        last_impure = i;
      }
      for_each_before(i, [&](Number before) {
        const Node& other = nodes_[before];
        const bool is_boundary = other.can_join && !may_join(node, other);
        raise(node, other.level + (is_boundary ? 1 : 0), is_boundary ? 1 : other.chain + 1);
      });
      if (node.chain > kLongestChain) raise(node, node.level + 1, 1);
    }
  }

  // An op that was ready long before the ops that use it runs with them, if these may join it.
  void put_off() {
    for (Number i = nodes_.size(); i-- > 0;) {
      Node& node = nodes_[i];
      if (!node.can_join) continue;
      std::int64_t latest = std::numeric_limits<std::int64_t>::max();
      bool has_company = false;
      for (const Op* user : node.op->output()->users()) {
        const Node& after = nodes_[numbers_.at(user)];
        const bool are_joined = may_join(node, after);
        const std::int64_t limit = after.level - (are_joined ? 0 : 1);
        has_company = limit < latest ? are_joined : has_company || (limit == latest && are_joined);
        latest = std::min(latest, limit);
      }
      if (has_company && latest > node.level) node.level = latest;
    }
  }

  static void raise(Node& node, std::int64_t level, std::int64_t chain) {
    if (level > node.level) {
      node.level = level;
      node.chain = chain;
    } else if (level == node.level) {
      node.chain = std::max(node.chain, chain);
    }
  }

  Number root(Number i) {
    while (nodes_[i].unit != i) i = nodes_[i].unit = nodes_[nodes_[i].unit].unit;
    return i;
  }

  // Whether there is a group.
  bool join() {
    bool has_joined = false;
    for (Number i = 0; i < nodes_.size(); ++i) {
      if (!nodes_[i].can_join) continue;
      for (const Value* input : nodes_[i].op->inputs()) {
        if (input == nullptr || input->producer() == nullptr) continue;
        const Number before = numbers_.at(input->producer());
        if (nodes_[before].level != nodes_[i].level || !may_join(nodes_[before], nodes_[i])) continue;
        const Number a = root(before), b = root(i);
        nodes_[std::max(a, b)].unit = std::min(a, b);
        has_joined = true;
      }
    }
    return has_joined;
  }

  // Whether what is left lies in runs that are long enough to be copied one by one.
  static bool has_long_runs(const Op& slice) {
    constexpr std::int64_t kLongRun = 16;
    const Shape &from = slice.input(0)->shape(), &to = slice.output()->shape();
    std::int64_t run = 1;
    for (std::size_t i = to.size(); i-- > 0;) {
      if (to[i] > 1 && slice.attrs<SliceAttrs>().steps[i] != 1) break;
      run *= to[i];
      if (to[i] != from[i]) break;
    }
    return run >= kLongRun;
  }

  // A slice that only one group, or one pointwise op, reads need not be made: its operand is read where it lies.
  // Whether there is one. Since nobody else reads it, a group that waits for its operand as well waits in no circle.
  bool join_slices() {
    bool has_joined = false;
    for (Number i = 0; i < nodes_.size(); ++i) {
      const Op& op = *nodes_[i].op;
      if (!op.is("slice") || !has_long_runs(op) || !is_read_by_one_group(op)) continue;
      const Number group = root(numbers_.at(*op.output()->users().begin()));
      nodes_[std::max(i, group)].unit = std::min(i, group);
      has_joined = true;
    }
    return has_joined;
  }

  bool is_read_by_one_group(const Op& op) {
    const Value& result = *op.output();
    if (result.users().empty() || result.is_output() || result.is_gradient()) return false;
    const Number group = root(numbers_.at(*result.users().begin()));
    return std::all_of(result.users().begin(), result.users().end(), [&](const Op* user) {
      const Number number = numbers_.at(user);
      return nodes_[number].can_join && are_alike(op, *user) && root(number) == group;
    });
  }

  // Groups and single ops in an order in which they can run, close to the one there was.
  std::vector<std::vector<Number>> ordered_units() {
    std::vector<std::vector<Number>> members(nodes_.size());
    for (Number i = 0; i < nodes_.size(); ++i) members[root(i)].push_back(i);
    for (Number i = 0; i < nodes_.size(); ++i) {
      for_each_before(i, [&](Number before) {
        const Number from = root(before), to = root(i);
        if (from == to) return;
        nodes_[from].after.push_back(to);
        ++nodes_[to].waiting;
      });
    }
    // By the last op of a unit: a group runs no earlier than it has to.
    using Turn = std::pair<Number, Number>;  // last op, unit
    std::priority_queue<Turn, std::vector<Turn>, std::greater<>> ready;
    const auto note = [&](Number unit) {
      if (nodes_[unit].waiting == 0 && !members[unit].empty()) ready.emplace(members[unit].back(), unit);
    };
    for (Number i = 0; i < nodes_.size(); ++i) note(i);
    std::vector<std::vector<Number>> result;
    while (!ready.empty()) {
      const Number unit = ready.top().second;
      ready.pop();
      for (Number after : nodes_[unit].after) {
        --nodes_[after].waiting;
        note(after);
      }
      result.push_back(std::move(members[unit]));
      members[unit].clear();
    }
    return result;
  }

  bool is_member(const Op* op, Number unit) { return root(numbers_.at(op)) == unit; }

  void replace(const std::vector<Number>& members) {
    const Number unit = root(members[0]);
    std::vector<Value*> operands;
    std::vector<Value*> results;
    for (Number i : members) {
      const Op& op = *nodes_[i].op;
      for (Value* input : op.inputs()) {
        const bool is_inner = input != nullptr && input->producer() != nullptr && is_member(input->producer(), unit);
        const bool is_known = std::find(operands.begin(), operands.end(), input) != operands.end();
        if (input != nullptr && !is_inner && !is_known) operands.push_back(input);
      }
      if (is_wanted(*op.output(), unit)) results.push_back(op.output());
    }
    const std::size_t carried = choose_carried(operands, results, members.back());
    make(members, operands, results, carried);
    ++num_groups_;
    num_grouped_ += members.size();
  }

  bool is_wanted(const Value& value, Number unit) {
    if (value.is_output() || value.is_gradient()) return true;
    return std::any_of(value.users().begin(), value.users().end(),
                       [&](const Op* user) { return !is_member(user, unit); });
  }

  // Orders operands and results so that those which may share a place come first, in pairs. An operand may give up its
  // place if nobody reads it later; the memory plan decides.
  std::size_t choose_carried(std::vector<Value*>& operands, std::vector<Value*>& results, Number last) {
    std::size_t carried = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const auto is_free = [&](const Value* operand) {
        return operand->type() == results[i]->type() &&
               std::all_of(operand->users().begin(), operand->users().end(), [&](const Op* user) {
                 if (user->is("slice") && is_member(user, root(last))) return false;  // of which others read a part
                 return user->is("assign") || numbers_.at(user) <= last;
               });
      };
      const auto found = std::find_if(operands.begin() + static_cast<std::ptrdiff_t>(carried), operands.end(), is_free);
      if (found == operands.end()) continue;
      std::iter_swap(operands.begin() + static_cast<std::ptrdiff_t>(carried), found);
      std::swap(results[carried], results[i]);
      ++carried;
    }
    return carried;
  }

  void make(const std::vector<Number>& members, const std::vector<Value*>& operands, const std::vector<Value*>& results,
            std::size_t carried) {
    auto body = std::make_unique<Graph>("group");
    GraphCopier copier(*body);
    for (const Value* operand : operands) copier.add_input(*operand);
    for (Number i : members) {
      Op* copy = copier.copy(*nodes_[i].op);
      copy->section = Section::kStep;
      copy->placement = {};
      copy->task = -1;
      copy->backward = false;
    }
    for (const Value* result : results) body->add_output(fmt::format("y{}", body->outputs().size()), copier[result]);
    GroupAttrs attrs{.carried = static_cast<std::int64_t>(carried), .body = std::move(body)};
    Op* group = graph_.add_op(op_registry().find("group"), operands, Attrs::of(std::move(attrs)));
    group->take_stamps(*nodes_[members.back()].op);
    for (std::size_t i = 0; i < results.size(); ++i) replace_value(graph_, results[i], group->output(i));
    for (auto i = members.rbegin(); i != members.rend(); ++i) {
      numbers_.erase(nodes_[*i].op);
      graph_.erase(nodes_[*i].op);
    }
    numbers_.emplace(group, members[0]);
  }

  Graph& graph_;
  std::int64_t least_;
  std::vector<Node> nodes_;
  std::unordered_map<const Op*, Number> numbers_;
  std::unordered_map<Number, Number> impure_before_;
  std::size_t num_groups_ = 0, num_grouped_ = 0;
};

}  // namespace

void group_elementwise(Graph& graph, const PassContext& context) {
  if (context.options.checks_floats) return;  // every op is looked at
  Grouper(graph, context.options).run();
}

}  // namespace aspen
