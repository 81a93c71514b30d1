// A crew: the workers that share a thread. Runs their tasks in the order found beforehand, meets the other crews before
// a weight update, and tells them of an error. The executor makes one per thread, or a single one that runs on the
// thread of the caller.
#pragma once

#include <cstddef>
#include <vector>

#include "aspen/runtime/worker.h"

namespace aspen {

class Crew {
 public:
  // `number` among the groups of devices of the plan. workers: by replica of the crew, then those of its devices.
  // control: nullptr if this is the only crew; it then does all the reductions itself.
  Crew(const Program& program, std::size_t number, std::vector<std::vector<Worker*>> workers, RunControl* control,
       const std::vector<Reduction>& reductions);

  void set_thread(const WorkerThread& thread);
  bool computes() const;
  bool has(const Worker& worker) const;

  // As the only crew: throws the error of an op, or Interrupted.
  void run(const RunPlan& plan);
  // As one of several.
  void run_with_others(const RunPlan& plan) noexcept;
  // Whether the last run ended inside an update.
  bool is_updating() const { return is_updating_; }

 private:
  using Clock = Worker::Clock;

  template <bool kRecorded>
  void run_cycles(const RunPlan& plan);
  // `now` is moved on, as in Worker::run_step.
  template <bool kRecorded>
  void run_steps(const RunPlan& plan, std::int64_t first, Clock::time_point& now);
  template <bool kRecorded>
  void finish_cycle(const RunPlan& plan, std::int64_t cycle, Clock::time_point& now);
  void meet_before_update(std::int64_t last_micro_batch);
  void ask_to_stop(const RunPlan& plan, Clock::time_point now);
  template <class F>
  void for_each_worker(const F& call) const {
    for (const auto& replica : workers_) {
      for (Worker* worker : replica) call(*worker);
    }
  }

  std::size_t number_;
  std::vector<std::vector<Worker*>> workers_;
  std::vector<std::vector<Worker*>> step_workers_, update_workers_;  // per replica of the crew: by task of the program
  RunControl* control_;
  const std::vector<Reduction>& reductions_;
  std::chrono::microseconds patience_{0};
  bool has_cycle_end_ = false;
  bool has_turns_ = false;  // see is_in_turns

  bool is_updating_ = false;
  Clock::time_point last_asked_;
};

}  // namespace aspen
