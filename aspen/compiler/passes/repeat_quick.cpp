#include "aspen/compiler/passes/repeat_quick.h"

#include <algorithm>
#include <map>

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

// Whether the backward ops of a task have the value at hand: some read it, or nothing has to be kept for it.
bool is_at_hand(const Value& value, const Op& reader, std::int64_t task) {
  const Op* producer = value.producer();
  if (producer != nullptr && producer->def().is_source())
    return reader.task == task;  // made there when it is asked for
  return std::any_of(value.users().begin(), value.users().end(),
                     [&](const Op* user) { return is_backward_in(*user, task); });
}

// Uses of the op's result in backward passes, by task; in the order of the graph.
std::map<std::int64_t, std::vector<Op*>> backward_users(const Op& op, const std::map<const Op*, std::size_t>& places) {
  std::map<std::int64_t, std::vector<Op*>> result;
  for (Op* user : op.output()->users()) {
    if (is_backward_in(*user, user->task)) result[user->task].push_back(user);
  }
  for (auto& [task, users] : result) {
    std::sort(users.begin(), users.end(), [&](const Op* a, const Op* b) { return places.at(a) < places.at(b); });
  }
  return result;
}

void repeat(Graph& graph, Op& op, const std::vector<Op*>& users) {
  Op* copy = graph.add_op(op.def(), op.inputs(), op.attrs(), users.front());
  copy->take_stamps(op);
  copy->backward = true;
  copy->task = users.front()->task;
  copy->placement = users.front()->placement;
  for (Op* user : users) {
    for (std::size_t i = 0; i < user->num_inputs(); ++i) {
      if (user->input(i) == op.output()) user->set_input(i, copy->output());
    }
  }
}

}  // namespace

void repeat_quick(Graph& graph, const PassContext& context) {
  std::vector<Op*> ops;
  std::map<const Op*, std::size_t> places;
  for (const auto& op : graph.ops()) {
    places.emplace(op.get(), ops.size());
    ops.push_back(op.get());
  }
  for (Op* op : ops) {
    if (!is_repeatable(*op, context.options.min_group_elements)) continue;
    for (const auto& [task, users] : backward_users(*op, places)) {
      const bool can_repeat = std::all_of(
          op->inputs().begin(), op->inputs().end(),
          [&, task = task](const Value* input) { return input == nullptr || is_at_hand(*input, *op, task); });
      if (can_repeat) repeat(graph, *op, users);
    }
  }
}

}  // namespace aspen
