// A worker runs the tasks of one device of one replica, one at a time, waiting where devices of other crews must have
// come first. Owned by the executor, called by the crew it belongs to.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "aspen/ipus/busy_clock.h"
#include "aspen/runtime/bound_task.h"
#include "aspen/runtime/cpu_share.h"
#include "aspen/runtime/executor.h"
#include "aspen/runtime/output_sink.h"
#include "aspen/runtime/overflow_watch.h"
#include "aspen/runtime/replica_memory.h"
#include "aspen/runtime/run_control.h"
#include "aspen/runtime/run_recorder.h"
#include "aspen/runtime/task_order.h"
#include "aspen/runtime/team_choice.h"
#include "aspen/runtime/thread_plan.h"
#include "aspen/runtime/transfer_stamps.h"
#include "aspen/runtime/variable_refresh.h"

namespace aspen {

// One call of Executor::run: `cycles` times `rounds` micro-batches and, in training, an update.
struct RunPlan {
  const RunRequest* request = nullptr;
  const TaskOrder* step_order = nullptr;  // of the rounds of a cycle
  const TaskOrder* update_order = nullptr;
  std::int64_t cycles = 1, rounds = 1;
  std::uint64_t seed = 0, first_step = 0;
  OverflowWatch* watch = nullptr;  // nullptr: nobody watches
  bool is_recorded = false;        // by the records of the workers
};

// The thread a worker runs on.
struct WorkerThread {
  ThreadTeam* team = nullptr;             // to compute with; nullptr: the thread alone
  std::chrono::microseconds patience{0};  // how long it waits awake; 0 unless it has a cpu of its own
  const CpuMask* host_cpus = nullptr;     // for what calls the host; nullptr: the thread is not pinned
};

class Worker {
 public:
  using Clock = TransferStamps::Clock;

  // control: nullptr if there is only one crew. sinks: of the replica, one per output.
  Worker(const Program& program, const std::vector<ReplicaMemory>& memories, const ThreadPlan& threads,
         std::size_t replica, std::size_t device, std::vector<OutputSink>& sinks, RunControl* control);

  void set_thread(const WorkerThread& thread) {
    thread_ = thread;
    context_.team = thread.team;
  }
  void set_record(WorkerRecord* record) { record_ = record; }
  // Tells others how long the device computes.
  void set_clock(const BusyClock& clock) { clock_ = clock; }
  bool computes() const { return computes_; }
  std::size_t replica() const { return replica_; }
  std::size_t device() const { return device_; }
  std::size_t num_threads() const { return thread_.team == nullptr ? 1 : thread_.team->num_threads(); }

  // Packs the operands that stay as they are, after the host has written variables (packing.h).
  void pack() const;
  // Forgets the last run.
  void begin(const RunPlan& plan);
  // Tasks by their number in the program. Throw the error of an op, with its place, or Stopped. `now` is moved on to
  // the end of the task: to read the clock takes as long as a small op. Without a record they are other functions,
  // which know nothing of it.
  template <bool kRecorded>
  void run_step(std::size_t task, std::int64_t micro_batch, Clock::time_point& now);
  template <bool kRecorded>
  void run_update(std::size_t task, std::int64_t cycle, Clock::time_point& now);
  // Gives the host the variables that are outputs, as they are now, as those of the micro-batches [first, end).
  void give_variables(std::int64_t first, std::int64_t end);
  // Copies what the updates of others wrote; after all updates of the crew.
  void refresh(std::int64_t cycle);
  // Waits until what the steps read off the devices is there; after the refreshes of the crew.
  void await_refreshes(std::int64_t cycle) const;

  void add_exchange(Clock::duration time) {
    exchange_ += time;
    clock_.add(time);
  }
  WorkerRecord* record() const { return plan_->is_recorded ? record_ : nullptr; }
  // After an error, which may have ended a task.
  void rest() { clock_.end(Clock::now()); }
  DeviceTime time(double total) const;       // of the last run, which took `total` seconds
  std::int64_t num_finished_rounds() const;  // in the last run, of all step tasks
  double transfer_time() const;              // seconds of the last run spent on inputs and outputs

  // An input of the program as a task receives it.
  struct Arrival {
    std::size_t input = 0;
    BufferAddress address;  // nowhere for an input that no op reads, or that is read where it lies
    TransferStamps stamps;  // by micro-batch
  };
  template <class F>
  void for_each_arrival(const F& call) const {
    for (const OwnTask& task : step_.tasks) {
      for (const Arrival& arrival : task.arrivals) call(arrival);
    }
  }

 private:
  // A task of another crew that must have come to round - lag.
  struct CounterWait {
    ProgressCounter* counter = nullptr;
    std::int64_t lag = 0;
  };
  struct OwnTask {
    BoundTask bound;
    std::vector<Arrival> arrivals;
    std::vector<CounterWait> waits;
    std::size_t choice = 0;               // its number in choice_
    std::size_t first_total = 0;          // of its instructions, in WorkerRecord::totals
    std::size_t first_backward = 0;       // instruction; those of a task without any: their number
    ProgressCounter* progress = nullptr;  // nullptr: no other crew waits for this task
    std::int64_t runs = 0;
    Clock::duration busy{};
  };
  // The tasks of one section on this device, found by their number in the program.
  struct Section {
    std::vector<OwnTask> tasks;
    std::vector<std::size_t> own_index;
    OwnTask& operator[](std::size_t task) { return tasks[own_index[task]]; }
  };

  Section bind(const std::vector<Task>& tasks, const std::vector<ReplicaMemory>& memories, bool is_update);
  void find_exchanges(const std::vector<ReplicaMemory>& memories);
  bool shares_thread(std::size_t replica, std::size_t device) const;
  void wait(const std::vector<CounterWait>& waits, std::int64_t round, const std::atomic<bool>& stopped) const;
  void count(OwnTask& task, std::int64_t finished, Clock::time_point begin, Clock::time_point end);
  const std::byte* input_at(std::size_t input, std::int64_t micro_batch) const;
  const std::byte* source_of(const BoundCopy& output, std::int64_t micro_batch) const;
  void copy_inputs(OwnTask& task, std::int64_t micro_batch, Clock::time_point& now);
  void copy_outputs(const BoundTask& task, std::int64_t micro_batch, Clock::time_point& now);
  // number: of the task in the program.
  template <bool kRecorded>
  void run_instructions(const OwnTask& task, std::size_t number, std::int64_t micro_batch, bool is_update);
  void run_in_turn(const BoundInstruction& bound, const KernelArgs& args, std::int64_t micro_batch) const;
  void run_watched(const BoundInstruction& bound, const KernelArgs& args, const OverflowWatch::Place& place) const;
  void run_checked(const BoundInstruction& bound, const KernelArgs& args) const;
  void run_on_host(const BoundInstruction& bound, const KernelArgs& args) const;
  std::string describe(const BoundTask& task, const Instruction& instruction, std::int64_t micro_batch,
                       bool is_update) const;

  const Program& program_;
  const ThreadPlan& threads_;
  std::size_t replica_, device_, input_group_, num_input_groups_;
  std::vector<OutputSink>& sinks_;
  RunControl* control_;
  WorkerThread thread_;
  Section step_, update_;
  std::vector<BoundCopy> given_variables_;
  bool computes_ = false, is_alone_ = false;
  std::vector<CounterWait> before_refresh_, before_steps_;
  std::vector<MemoryCopy> refresh_;
  TeamChoice choice_;
  WorkerRecord* record_ = nullptr;
  std::size_t num_instructions_ = 0;
  BusyClock clock_;

  // Of the current or last run.
  const RunPlan* plan_ = nullptr;
  StepContext context_;
  Clock::duration exchange_{};   // spent in reductions and refreshes
  Clock::duration transfers_{};  // spent on inputs and outputs
};

}  // namespace aspen
