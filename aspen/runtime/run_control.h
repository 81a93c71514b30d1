// What the crews of one run share: how far each task has come, where they meet before a weight update, and the first
// error. Made by the executor for programs that run on more than one thread.
//
// A weight update has one meeting. Before it nobody updates, so that all do or none; in it the gradients of replicas
// are added up; after it everybody waits only for the updates whose results it reads, as what an update has written
// stays until the next meeting.
//
// A run can be stopped at two depths. An error in a step, or Interrupted, stops the steps: no step task begins any more
// and no further update either, but an update that has begun is finished everywhere, so that the devices stay in step
// with each other. Only an error inside an update stops everything.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include "aspen/runtime/program.h"
#include "aspen/runtime/rendezvous.h"
#include "aspen/runtime/replica_reduction.h"

namespace aspen {

// Asking whether to stop may mean taking the interpreter lock of the front end: not more often than this.
inline constexpr std::chrono::milliseconds kStopInterval{20};

// Thrown to unwind a crew when another one has stopped the run.
struct Stopped {};

// Rounds of one task that are finished; on a cache line of its own, as one crew writes what another one watches.
class alignas(64) ProgressCounter {
 public:
  void reset() { finished_.store(0); }
  // Everything the caller wrote before is visible to who sees this value.
  void set(std::int64_t finished);
  // Lets all that wait look at the flag they watch.
  void release();
  // Waits until `finished` rounds are finished: awake for as long as `patience`, then asleep. Throws Stopped as soon as
  // the flag is set.
  void wait(std::int64_t finished, const std::atomic<bool>& stopped, std::chrono::microseconds patience);

 private:
  std::atomic<std::int32_t> finished_{0};
};

class RunControl {
 public:
  // num_computing: crews that take part in weight updates. The reductions must outlive this.
  RunControl(const Program& program, std::size_t num_computing, const std::vector<Reduction>& reductions);

  // Forgets the last run; only while no crew runs.
  void reset();

  ProgressCounter& step(std::size_t replica, std::size_t task) { return steps_[replica * num_step_tasks_ + task]; }
  ProgressCounter& update(std::size_t replica, std::size_t task) {
    return updates_[replica * num_update_tasks_ + task];
  }
  // Times that replicas have run an instruction of the steps which they run one after the other, by its number.
  ProgressCounter& turns(std::size_t number) { return turns_[number]; }
  // Updates after which a device has copied what others wrote.
  ProgressCounter& refresh(std::size_t replica, std::size_t device) {
    return refreshes_[replica * num_devices_ + device];
  }
  const std::atomic<bool>& steps_stopped() const { return steps_stopped_; }
  const std::atomic<bool>& updates_stopped() const { return updates_stopped_; }

  // Returns when all computing crews have come and the gradients of replicas are added up: the time the caller spent
  // on adding.
  Rendezvous::Clock::duration meet_before_update(std::chrono::microseconds patience) {
    auto [has_met, working] = before_update_.meet(patience);
    if (!has_met) throw Stopped();
    return working;
  }

  void stop_steps(std::exception_ptr error);
  void stop_everything(std::exception_ptr error);
  std::exception_ptr error();  // the first one; nullptr if all went well
  bool update_failed() const { return updates_stopped_.load(); }

 private:
  void keep_first(std::exception_ptr error);

  std::size_t num_step_tasks_, num_update_tasks_, num_devices_;
  std::vector<ProgressCounter> steps_, updates_, refreshes_, turns_;
  Rendezvous before_update_;
  std::atomic<bool> steps_stopped_{false}, updates_stopped_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

}  // namespace aspen
