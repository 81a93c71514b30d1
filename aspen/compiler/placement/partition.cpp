#include "aspen/compiler/placement/partition.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_set>

#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/placement/check_variables.h"
#include "aspen/compiler/placement/clone.h"
#include "aspen/compiler/placement/stages.h"
#include "aspen/compiler/placement/step_tasks.h"
#include "aspen/compiler/placement/task_cost.h"
#include "aspen/compiler/placement/update_tasks.h"

namespace aspen {
namespace {

// A backward op that depends on nothing computed runs where its result is first used: its own stage may come before
// the one a gradient has moved to, and a result that waits only takes memory.
void delay_free_ops(Graph& graph) {
  const RemadeOps is_remade(graph);
  std::unordered_set<const Op*> free;
  std::vector<Op*> found;
  for (const auto& op : graph.ops()) {
    auto is_known = [&](const Value* input) {
      const Op* producer = input == nullptr ? nullptr : input->producer();
      return producer == nullptr || is_remade(*producer) || free.count(producer) != 0;
    };
    if (op->section != Section::kStep || !op->backward || op->is_impure() || is_remade(*op)) continue;
    if (!std::all_of(op->inputs().begin(), op->inputs().end(), is_known)) continue;
    free.insert(op.get());
    found.push_back(op.get());
  }
  for (auto place = found.rbegin(); place != found.rend(); ++place) {  // users first
    Op& op = **place;
    std::int64_t first_use = std::numeric_limits<std::int64_t>::max();
    for (const Value* output : op.outputs()) {
      if (output->is_output()) first_use = op.task;
      for (const Op* user : output->users()) first_use = std::min(first_use, user->task);
    }
    bool is_used = first_use < static_cast<std::int64_t>(graph.tasks.size());
    if (is_used) op.task = std::max(op.task, first_use);
  }
}

// Puts ops without a place of their own into the tasks of their users, one copy for each. Backwards: an alias is
// copied before what it is an alias of.
void remake_for_users(Graph& graph, Section section) {
  const RemadeOps is_remade(graph);
  std::vector<Op*> remade;
  std::int64_t first_task = -1;
  for (std::size_t i = 0; i < graph.tasks.size() && first_task < 0; ++i) {
    if (graph.tasks[i].section == section) first_task = static_cast<std::int64_t>(i);
  }
  for (const auto& op : graph.ops()) {
    if (op->section == section && is_remade(*op)) remade.push_back(op.get());
  }
  for (auto place = remade.rbegin(); place != remade.rend(); ++place) {
    Op* op = *place;
    std::map<std::int64_t, std::vector<std::pair<Use, std::size_t>>> uses;  // by task; with the output
    for (std::size_t i = 0; i < op->num_outputs(); ++i) {
      for (const Use& use : op->output(i)->users()) uses[use.op->task].emplace_back(use, i);
    }
    op->task = uses.empty() ? first_task : uses.begin()->first;
    uses.erase(op->task);
    for (const auto& [task, users] : uses) {
      Op* copy = clone_op(graph, *op, op);
      copy->task = task;
      for (const auto& [use, output] : users) use.op->set_input(use.input, copy->output(output));
    }
  }
}

void drop_empty_tasks(Graph& graph) {
  std::vector<std::int64_t> number(graph.tasks.size(), -1);
  bool has_step = false;
  for (const auto& op : graph.ops()) {
    number[op->task] = 0;
    has_step = has_step || op->section == Section::kStep;
  }
  if (!has_step) number[0] = 0;  // a step may just hand its inputs on
  std::vector<GraphTask> kept;
  for (std::size_t i = 0; i < number.size(); ++i) {
    if (number[i] < 0) continue;
    number[i] = static_cast<std::int64_t>(kept.size());
    kept.push_back(std::move(graph.tasks[i]));
  }
  graph.tasks = std::move(kept);
  for (const auto& op : graph.ops()) op->task = number[op->task];
}

}  // namespace

void partition(Graph& graph, const PassContext& context) {
  graph.tasks.clear();
  graph.lanes.clear();
  make_step_tasks(graph, context.options);
  delay_free_ops(graph);
  remake_for_users(graph, Section::kStep);
  make_update_tasks(graph);
  remake_for_users(graph, Section::kUpdate);
  drop_empty_tasks(graph);
  for (const auto& op : graph.ops()) op->placement.device = graph.tasks[op->task].device;
  check_variables(graph);
  set_costs(graph);
}

const Condition kPartitioned{
    "partitioned", [](const Graph& graph) -> std::string {
      if (graph.tasks.empty()) return "there are no tasks";
      for (const auto& op : graph.ops()) {
        if (op->task < 0) return fmt::format("{} has no task", op->name());
        const GraphTask& task = graph.tasks[op->task];
        if (op->placement.device != task.device) {
          return fmt::format("{} of device {} is in task \"{}\" of device {}", op->name(), op->placement.device,
                             task.name, task.device);
        }
        for (const Value* input : op->inputs()) {
          if (input == nullptr || input->producer() == nullptr || input->producer()->task <= op->task) continue;
          return fmt::format("{} in task \"{}\" reads a result of the later task \"{}\"", op->name(), task.name,
                             graph.tasks[input->producer()->task].name);
        }
      }
      return "";
    }};

}  // namespace aspen
