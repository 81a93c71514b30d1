#include "aspen/compiler/passes/repeat_quick.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "aspen/compiler/ir/op_def.h"

namespace aspen {
namespace {

bool is_repeatable(const Op& op, std::int64_t least) {
  const bool is_of_the_forward_pass = !op.backward && op.section == Section::kStep;
  return is_of_the_forward_pass && op.def().is_quick() && op.is_function() && op.num_outputs() == 1 &&
         op.output()->dtype() != DType::kF16 && op.output()->type().numel() >= least;
}

bool is_backward_in(const Op& op, std::int64_t task) {
  return op.backward && op.section == Section::kStep && op.task == task;
}

class Repeater {
 public:
  explicit Repeater(Graph& graph) : graph_(graph) {
    for (const auto& op : graph.ops()) places_.emplace(op.get(), places_.size());
  }

  // Lets the backward ops of each task have a copy of the op, if that needs no more than they have.
  void repeat(Op& op) {
    for (const auto& [task, users] : backward_users(op)) {
      const bool can_repeat = std::all_of(op.inputs().begin(), op.inputs().end(), [&, task = task](const Value* input) {
        return input == nullptr || is_at_hand(*input, op, task);
      });
      if (can_repeat) copy(op, task, users);
    }
  }

 private:
  // Uses of the op's result in backward passes, by task; the first in the graph is the first.
  std::map<std::int64_t, std::vector<Op*>> backward_users(const Op& op) const {
    std::map<std::int64_t, std::vector<Op*>> result;
    for (Op* user : op.output()->users()) {
      if (is_backward_in(*user, user->task)) result[user->task].push_back(user);
    }
    for (auto& [task, users] : result) {
      std::sort(users.begin(), users.end(), [&](const Op* a, const Op* b) { return places_.at(a) < places_.at(b); });
    }
    return result;
  }

  Op* copied(const Value& value, std::int64_t task) const {
    const auto found = copies_.find({value.id(), task});
    return found == copies_.end() ? nullptr : found->second;
  }

  // Whether the backward ops of a task can read the value without its being kept for that.
  bool is_at_hand(const Value& value, const Op& reader, std::int64_t task) const {
    const Op* producer = value.producer();
    if (producer != nullptr && producer->def().is_source()) return reader.task == task;  // made when it is asked for
    return copied(value, task) != nullptr || std::any_of(value.users().begin(), value.users().end(),
                                                         [&](const Op* user) { return is_backward_in(*user, task); });
  }

  void copy(Op& op, std::int64_t task, const std::vector<Op*>& users) {
    Op* before = users.front();
    std::vector<Value*> inputs;
    for (Value* input : op.inputs()) {
      Op* copy = input == nullptr ? nullptr : copied(*input, task);
      if (copy != nullptr) move_up(*copy, *before);
      inputs.push_back(copy == nullptr ? input : copy->output());
    }
    Op* made = graph_.add_op(op.def(), std::move(inputs), op.attrs(), before);
    made->take_stamps(op);
    made->backward = true;
    made->task = task;
    made->placement = before->placement;
    places_[made] = places_.at(before);
    copies_[{op.output()->id(), task}] = made;
    for (Op* user : users) {
      for (std::size_t i = 0; i < user->num_inputs(); ++i) {
        if (user->input(i) == op.output()) user->set_input(i, made->output());
      }
    }
  }

  // A copy stands before the first op that reads it, and so do the copies it reads.
  void move_up(Op& copy, Op& before) {
    if (places_.at(&copy) <= places_.at(&before)) return;
    places_[&copy] = places_.at(&before);
    for (const Value* input : copy.inputs()) {
      const Op* producer = input == nullptr ? nullptr : input->producer();
      if (producer != nullptr && producer->backward) move_up(*input->producer(), before);
    }
    graph_.move_before(&copy, &before);
  }

  Graph& graph_;
  std::unordered_map<const Op*, std::size_t> places_;            // of a copy: that of the op it stands before
  std::map<std::pair<std::int64_t, std::int64_t>, Op*> copies_;  // by value and task
};

}  // namespace

void repeat_quick(Graph& graph, const PassContext& context) {
  std::vector<Op*> repeatable;
  for (const auto& op : graph.ops()) {
    if (is_repeatable(*op, context.options.min_group_elements)) repeatable.push_back(op.get());
  }
  Repeater repeater(graph);
  for (Op* op : repeatable) repeater.repeat(*op);
}

}  // namespace aspen
