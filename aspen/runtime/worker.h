// A worker runs the tasks of one device of one replica, in the order found beforehand, waiting where other devices or
// replicas must have come first. The executor makes one per device in use and replica and calls run() on a thread of
// its own, or on the caller's when there is only one.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "aspen/runtime/bound_task.h"
#include "aspen/runtime/executor.h"
#include "aspen/runtime/output_sink.h"
#include "aspen/runtime/replica_memory.h"
#include "aspen/runtime/replica_reduction.h"
#include "aspen/runtime/run_control.h"
#include "aspen/runtime/task_order.h"
#include "aspen/runtime/variable_refresh.h"

namespace aspen {

// Whether a device computes; one that does not only moves inputs and outputs.
bool computes(const Program& program, std::size_t device);

// One call of Executor::run: `cycles` times `rounds` micro-batches and, in training, an update.
struct RunPlan {
  const RunRequest* request = nullptr;
  const TaskOrder* step_order = nullptr;  // of the rounds of a cycle
  const TaskOrder* update_order = nullptr;
  std::int64_t cycles = 1, rounds = 1;
  std::uint64_t seed = 0, first_step = 0;
};

class Worker {
 public:
  // control: nullptr if this is the only worker. sinks: of the replica, one per output.
  Worker(const Program& program, const std::vector<ReplicaMemory>& memories, std::size_t replica, std::size_t device,
         std::vector<OutputSink>& sinks, RunControl* control);

  // Threads to compute with in steps and in updates; nullptr: the worker's own alone.
  void set_teams(ThreadTeam* step, ThreadTeam* update) {
    step_team_ = step;
    update_team_ = update;
  }
  bool computes() const { return computes_; }

  // As the only worker: throws the error of an op, or Interrupted.
  void run(const RunPlan& plan);
  // As one of several: tells the others of an error.
  void run_with_others(const RunPlan& plan) noexcept;

  DeviceTime time(double total) const;       // of the last run, which took `total` seconds
  std::int64_t num_finished_rounds() const;  // in the last run, of all step tasks

 private:
  using Clock = std::chrono::steady_clock;

  // Another device's task that must have come to round - lag.
  struct CounterWait {
    ProgressCounter* counter = nullptr;
    std::int64_t lag = 0;
  };
  struct OwnTask {
    BoundTask bound;
    std::vector<CounterWait> waits;
    ProgressCounter* progress = nullptr;  // nullptr: no other device waits for this task
    std::int64_t runs = 0;
    Clock::duration busy{};
  };
  // The tasks of one section on this device, found by their number in the program.
  struct Section {
    std::vector<OwnTask> tasks;
    std::vector<std::size_t> own_index;
    OwnTask& operator[](std::size_t task) { return tasks[own_index[task]]; }
  };

  Section bind(const std::vector<Task>& tasks, const ReplicaMemory& memory, bool is_update);
  void run_step(OwnTask& task, std::int64_t micro_batch);
  void finish_cycle(std::int64_t cycle);
  void run_update(OwnTask& task, std::int64_t cycle);
  void reduce_over_replicas();
  void refresh_variables();
  void wait(const OwnTask& task, std::int64_t round, const std::atomic<bool>& stopped) const;
  void copy_inputs(const BoundTask& task, std::int64_t micro_batch) const;
  void run_instructions(const BoundTask& task, std::int64_t micro_batch) const;
  void run_checked(const BoundInstruction& bound, const KernelArgs& args) const;
  std::string describe(const BoundTask& task, const Instruction& instruction, std::int64_t micro_batch) const;
  void ask_to_stop(Clock::time_point now);

  const Program& program_;
  std::size_t replica_, device_, input_group_, num_input_groups_;
  std::vector<OutputSink>& sinks_;
  RunControl* control_;
  Section step_, update_;
  ThreadTeam *step_team_ = nullptr, *update_team_ = nullptr;
  bool computes_ = false;
  bool has_cycle_end_ = false, needs_reduction_ = false, meets_after_update_ = false;
  std::vector<Reduction> reductions_;
  std::vector<MemoryCopy> refresh_;

  // Of the current or last run.
  const RunPlan* plan_ = nullptr;
  StepContext context_;
  bool is_updating_ = false;
  Clock::duration exchange_{};  // spent in reductions and refreshes
  Clock::time_point last_asked_;
};

}  // namespace aspen
