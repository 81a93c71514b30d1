#include "aspen/runtime/task_order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "aspen/base/error.h"

namespace aspen {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

class Simulation {
 public:
  Simulation(const std::vector<Task>& tasks, const std::vector<std::size_t>& crew_of_device, std::int64_t rounds)
      : tasks_(tasks), rounds_(rounds), started_(tasks.size()), finished_(tasks.size()) {
    std::size_t num_devices = crew_of_device.size(), num_crews = 0;
    for (std::size_t crew : crew_of_device) num_crews = std::max(num_crews, crew + 1);
    crews_.resize(num_crews);
    order_.resize(num_crews);
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      if (tasks[t].device >= num_devices) {
        throw InternalError("task \"{}\" is on device {} of {}", tasks[t].name, tasks[t].device, num_devices);
      }
      for (const Wait& wait : tasks[t].waits) {
        if (wait.task >= tasks.size()) {
          throw InternalError("task \"{}\" waits for task {} of {}", tasks[t].name, wait.task, tasks.size());
        }
      }
      crews_[crew_of_device[tasks[t].device]].tasks.push_back(t);
    }
  }

  TaskOrder run() {
    for (;;) {
      for (std::size_t crew = 0; crew < crews_.size(); ++crew) start_on(crew);
      double next = std::numeric_limits<double>::infinity();
      bool is_busy = false;
      for (const SimulatedCrew& crew : crews_) {
        if (crew.running == kNone) continue;
        is_busy = true;
        next = std::min(next, crew.end);
      }
      if (!is_busy) break;
      finish_until(next);
    }
    if (std::any_of(finished_.begin(), finished_.end(), [&](std::int64_t n) { return n != rounds_; })) fail();
    return std::move(order_);
  }

 private:
  struct SimulatedCrew {
    std::vector<std::size_t> tasks;
    std::size_t running = kNone;
    double end = 0;
  };

  const Wait* first_open_wait(std::size_t task) const {
    for (const Wait& wait : tasks_[task].waits) {
      std::int64_t needed = started_[task] - wait.lag + 1;
      if (needed > 0 && finished_[wait.task] < needed) return &wait;
    }
    return nullptr;
  }

  void start_on(std::size_t number) {
    SimulatedCrew& crew = crews_[number];
    if (crew.running != kNone) return;
    std::size_t best = kNone;
    for (std::size_t task : crew.tasks) {
      if (started_[task] == rounds_ || first_open_wait(task) != nullptr) continue;
      if (best == kNone || started_[task] <= started_[best]) best = task;
    }
    if (best == kNone) return;
    order_[number].push_back({.task = best, .round = started_[best]++});
    crew.running = best;
    crew.end = now_ + std::max(0.0, tasks_[best].cost);
  }

  void finish_until(double time) {
    now_ = time;
    for (SimulatedCrew& crew : crews_) {
      if (crew.running == kNone || crew.end > time) continue;
      ++finished_[crew.running];
      crew.running = kNone;
    }
  }

  [[noreturn]] void fail() const {
    std::string text;
    for (std::size_t task = 0; task < tasks_.size(); ++task) {
      if (started_[task] == rounds_) continue;
      const Wait* wait = first_open_wait(task);
      text += fmt::format("{}\"{}\" of round {} waits for \"{}\" of round {}", text.empty() ? "" : "; ",
                          tasks_[task].name, started_[task], tasks_[wait->task].name, started_[task] - wait->lag);
    }
    throw InternalError("the tasks of a program wait for each other: {}", text);
  }

  const std::vector<Task>& tasks_;
  std::int64_t rounds_;
  double now_ = 0;
  std::vector<std::int64_t> started_, finished_;  // rounds per task
  std::vector<SimulatedCrew> crews_;
  TaskOrder order_;
};

// Whether waits make a round of `task` come after the round `lag` before of `earlier`.
bool comes_after(const std::vector<Task>& tasks, std::size_t task, std::size_t earlier, std::int64_t lag) {
  std::vector<std::int64_t> reached(tasks.size(), lag + 1);  // the least lag found so far
  std::vector<std::size_t> open{task};
  reached[task] = 0;
  while (!open.empty()) {
    std::size_t current = open.back();
    open.pop_back();
    for (const Wait& wait : tasks[current].waits) {
      std::int64_t total = reached[current] + wait.lag;
      if (total >= reached[wait.task]) continue;
      reached[wait.task] = total;
      open.push_back(wait.task);
    }
  }
  return task == earlier || reached[earlier] <= lag;
}

}  // namespace

TaskOrder order_tasks(const std::vector<Task>& tasks, const std::vector<std::size_t>& crew_of_device,
                      std::int64_t rounds) {
  return Simulation(tasks, crew_of_device, rounds).run();
}

TaskOrder order_tasks(const std::vector<Task>& tasks, std::size_t num_devices, std::int64_t rounds) {
  std::vector<std::size_t> crew_of_device(num_devices);
  std::iota(crew_of_device.begin(), crew_of_device.end(), std::size_t{0});
  return order_tasks(tasks, crew_of_device, rounds);
}

bool take_turns(const std::vector<Task>& tasks) {
  std::vector<std::size_t> computing;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (!tasks[i].instructions.empty() && !tasks[i].moves) computing.push_back(i);
  }
  if (computing.empty()) return true;
  for (std::size_t i = 1; i < computing.size(); ++i) {
    if (!comes_after(tasks, computing[i], computing[i - 1], 0)) return false;
  }
  return comes_after(tasks, computing.front(), computing.back(), 1);
}

bool is_in_turns(const Instruction& instruction) { return instruction.request.op == "replica_add"; }

std::size_t num_turns(const Program& program) {
  std::size_t count = 0;
  for (const Task& task : program.step) {
    for (const Instruction& instruction : task.instructions) count += is_in_turns(instruction) ? 1 : 0;
  }
  return count;
}

}  // namespace aspen
