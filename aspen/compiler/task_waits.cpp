#include "aspen/compiler/task_waits.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/placement/overlap_io.h"
#include "aspen/ops/transfer/transfer.h"

namespace aspen {
namespace {

class WaitFinder {
 public:
  explicit WaitFinder(const Graph& graph) : graph_(graph), lags_(graph.tasks.size()), tasks_of_(graph.lanes.size()) {
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      tasks_of_[graph.tasks[i].lane].push_back(static_cast<std::int64_t>(i));
    }
    add_readers();
  }

  std::vector<std::vector<Wait>> run() {
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) enter(static_cast<std::int64_t>(i), graph_.tasks[i].lane);
    for (const auto& op : graph_.ops()) {
      for (const Value* input : op->inputs()) {
        if (input == nullptr || input->producer() == nullptr) continue;
        add(op->task, input->producer()->task, 0);
        if (op->is("replica_sum")) in_all_replicas_.emplace(op->task, input->producer()->task);
      }
      if (op->is("send")) enter(op->task, op->attrs<SendAttrs>().lane);
      if (op->is("store")) enter(op->task, op->attrs<StoreAttrs>().lane);
    }
    for (const Graph::Output& output : graph_.outputs()) {
      const Op* producer = output.value->producer();
      if (producer != nullptr) add(task_after_send(graph_, *producer), producer->task, 0);
    }
    follow_assigns();
    take_turns();
    return numbered();
  }

 private:
  // What is brought from a variable is what the micro-batch before has left there.
  void follow_assigns() {
    for (const auto& variable : graph_.variables()) {
      for (const Op* assign : variable->value->users()) {
        if (!assign->is("assign") || assign->input(0) != variable->value.get()) continue;
        for (const Op* user : variable->value->users()) {
          if (graph_.tasks[user->task].moves) add(user->task, assign->task, 1);
        }
      }
    }
  }

  // Where lanes hold one micro-batch, one device computes at a time, also where the data would let several.
  void take_turns() {
    std::set<std::int64_t> computing;
    for (const auto& op : graph_.ops()) {
      if (op->section == Section::kStep && !is_arrival(*op) && !graph_.tasks[op->task].moves)
        computing.insert(op->task);
    }
    auto holds_one = [&](std::int64_t task) { return graph_.lanes[graph_.tasks[task].lane].depth == 1; };
    if (computing.empty() || !std::all_of(computing.begin(), computing.end(), holds_one)) return;
    for (auto task = std::next(computing.begin()); task != computing.end(); ++task) add(*task, *std::prev(task), 0);
    add(*computing.begin(), *computing.rbegin(), 1);
  }

  // A slot of a lane that has no tasks is free again when the last task that reads from it is through.
  void add_readers() {
    std::vector<std::set<std::int64_t>> readers(graph_.lanes.size());
    for (const auto& op : graph_.ops()) {
      for (const Value* input : op->inputs()) {
        const Op* origin = input == nullptr ? nullptr : input->producer();
        while (origin != nullptr && origin->def().is_alias()) origin = origin->input(0)->producer();
        if (origin != nullptr && origin->is("send")) readers[origin->attrs<SendAttrs>().lane].insert(op->task);
      }
    }
    for (std::size_t lane = 0; lane < readers.size(); ++lane) {
      if (tasks_of_[lane].empty()) tasks_of_[lane].assign(readers[lane].begin(), readers[lane].end());
    }
  }

  // A task that writes into a lane comes after the lane's earlier tasks; the first one to do so, after the micro-batch
  // that had the slot before.
  void enter(std::int64_t task, std::int64_t lane) {
    const auto& tasks = tasks_of_[lane];
    auto next = std::lower_bound(tasks.begin(), tasks.end(), task);
    if (next != tasks.begin()) {
      add(task, *(next - 1), 0);
    } else if (!tasks.empty()) {
      add(task, tasks.back(), graph_.lanes[lane].depth);
    }
  }

  // The shortest lag between two tasks says all.
  void add(std::int64_t task, std::int64_t before, std::int64_t lag) {
    if (task == before) return;  // a task takes micro-batches in turn anyway
    if (graph_.tasks[task].section != graph_.tasks[before].section) return;
    auto [found, is_new] = lags_[task].emplace(before, lag);
    if (!is_new) found->second = std::min(found->second, lag);
  }

  std::vector<std::vector<Wait>> numbered() const {
    auto is_step = [](const GraphTask& task) { return task.section == Section::kStep; };
    auto num_step = std::count_if(graph_.tasks.begin(), graph_.tasks.end(), is_step);
    std::vector<std::vector<Wait>> result;
    for (std::size_t i = 0; i < lags_.size(); ++i) {
      auto& waits = result.emplace_back();
      for (auto [task, lag] : lags_[i]) {
        bool in_step = is_step(graph_.tasks[task]);
        waits.push_back({.task = static_cast<std::size_t>(in_step ? task : task - num_step),
                         .lag = lag,
                         .in_all_replicas = in_all_replicas_.count({static_cast<std::int64_t>(i), task}) != 0});
      }
    }
    return result;
  }

  const Graph& graph_;
  std::vector<std::map<std::int64_t, std::int64_t>> lags_;           // by task: the tasks it waits for, with their lags
  std::set<std::pair<std::int64_t, std::int64_t>> in_all_replicas_;  // waits for a task in every replica
  std::vector<std::vector<std::int64_t>> tasks_of_;                  // by lane, ascending; its own or else its readers
};

}  // namespace

std::vector<std::vector<Wait>> find_waits(const Graph& graph) { return WaitFinder(graph).run(); }

}  // namespace aspen
