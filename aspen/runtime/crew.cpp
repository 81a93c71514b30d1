#include "aspen/runtime/crew.h"

#include <algorithm>
#include <utility>

#include "aspen/base/error.h"

namespace aspen {
namespace {

// Per replica the worker of each task; nullptr for those of other crews.
std::vector<std::vector<Worker*>> by_task(const std::vector<std::vector<Worker*>>& workers,
                                          const std::vector<Task>& tasks) {
  std::vector<std::vector<Worker*>> result;
  for (const auto& of_replica : workers) {
    auto& found = result.emplace_back(tasks.size(), nullptr);
    for (std::size_t task = 0; task < tasks.size(); ++task) {
      auto is_its = [&](const Worker* worker) { return worker->device() == tasks[task].device; };
      auto worker = std::find_if(of_replica.begin(), of_replica.end(), is_its);
      if (worker != of_replica.end()) found[task] = *worker;
    }
  }
  return result;
}

}  // namespace

Crew::Crew(const Program& program, std::size_t number, std::vector<std::vector<Worker*>> workers, RunControl* control,
           const std::vector<Reduction>& reductions)
    : number_(number), workers_(std::move(workers)), step_workers_(by_task(workers_, program.step)),
      update_workers_(by_task(workers_, program.update)), control_(control), reductions_(reductions) {
  auto is_reduced = [](const ProgramVariable& variable) { return variable.reduced; };
  bool any_reduced = std::any_of(program.variables.begin(), program.variables.end(), is_reduced);
  has_cycle_end_ = computes() && (!program.update.empty() || any_reduced);
  has_turns_ = num_turns(program) > 0;
}

void Crew::set_thread(const WorkerThread& thread) {
  patience_ = thread.patience;
  for_each_worker([&](Worker& worker) { worker.set_thread(thread); });
}

bool Crew::computes() const {
  bool any = false;
  for_each_worker([&](const Worker& worker) { any = any || worker.computes(); });
  return any;
}

bool Crew::has(const Worker& worker) const {
  bool found = false;
  for_each_worker([&](const Worker& member) { found = found || &member == &worker; });
  return found;
}

void Crew::run_with_others(const RunPlan& plan) noexcept {
  try {
    run(plan);
  } catch (const Stopped&) {
  } catch (...) {
    if (is_updating_) {
      control_->stop_everything(std::current_exception());
    } else {
      control_->stop_steps(std::current_exception());
    }
  }
}

void Crew::run(const RunPlan& plan) {
  is_updating_ = false;
  for_each_worker([&](Worker& worker) { worker.begin(plan); });
  plan.is_recorded ? run_cycles<true>(plan) : run_cycles<false>(plan);
}

template <bool kRecorded>
void Crew::run_cycles(const RunPlan& plan) {
  auto now = last_asked_ = Clock::now();
  for (std::int64_t cycle = 0; cycle < plan.cycles; ++cycle) {
    const std::int64_t first = cycle * plan.rounds, last = first + plan.rounds - 1;
    for_each_worker([&](Worker& worker) { worker.give_variables(first, last); });
    run_steps<kRecorded>(plan, first, now);
    if (has_cycle_end_) finish_cycle<kRecorded>(plan, cycle, now);
    for_each_worker([&](Worker& worker) { worker.give_variables(last, last + 1); });
  }
}

// Replicas that add to what all share go through the tasks side by side, the others one after the other.
template <bool kRecorded>
void Crew::run_steps(const RunPlan& plan, std::int64_t first, Clock::time_point& now) {
  const auto run = [&](const std::vector<Worker*>& worker_of, const TaskRun& next) {
    worker_of[next.task]->template run_step<kRecorded>(next.task, first + next.round, now);
    if (control_ == nullptr) ask_to_stop(plan, now);
  };
  const std::vector<TaskRun>& order = (*plan.step_order)[number_];
  if (has_turns_) {
    for (const TaskRun& next : order) {
      for (const auto& worker_of : step_workers_) run(worker_of, next);
    }
    return;
  }
  for (const auto& worker_of : step_workers_) {
    for (const TaskRun& next : order) run(worker_of, next);
  }
}

template <bool kRecorded>
void Crew::finish_cycle(const RunPlan& plan, std::int64_t cycle, Clock::time_point& now) {
  meet_before_update((cycle + 1) * plan.rounds - 1);
  is_updating_ = true;
  now = Clock::now();
  // All replicas get through with a task before any begins the next one, which may need what the others have found.
  for (const TaskRun& next : (*plan.update_order)[number_]) {
    for (const auto& worker_of : update_workers_) {
      worker_of[next.task]->template run_update<kRecorded>(next.task, cycle, now);
    }
  }
  for_each_worker([&](Worker& worker) { worker.refresh(cycle); });
  for_each_worker([&](const Worker& worker) { worker.await_refreshes(cycle); });
  is_updating_ = false;
  now = Clock::now();
}

void Crew::meet_before_update(std::int64_t last_micro_batch) {
  Clock::duration adding{};
  if (control_ != nullptr) {
    adding = control_->meet_before_update(patience_);
  } else if (!reductions_.empty()) {
    auto start = Clock::now();
    for (const Reduction& reduction : reductions_) aspen::run(reduction);
    adding = Clock::now() - start;
  }
  for_each_worker([&](Worker& worker) { worker.add_exchange(adding); });
  if (adding == Clock::duration::zero()) return;
  // The thread did it, for all of its devices: the first one shows it.
  Worker& first = *workers_.front().front();
  if (first.record() == nullptr) return;
  const auto end = Clock::now();
  first.record()->add(WorkerEvent::Kind::kExchange, last_micro_batch, end - adding, end);
}

void Crew::ask_to_stop(const RunPlan& plan, Clock::time_point now) {
  if (!plan.request->should_stop || now - last_asked_ < kStopInterval) return;
  if (plan.request->should_stop()) throw Interrupted();
  last_asked_ = Clock::now();
}

}  // namespace aspen
