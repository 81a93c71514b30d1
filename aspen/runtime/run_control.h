// What the workers of one run share: how far each task has come, where they meet around a weight update, and the first
// error. Made by the executor for programs that need more than one worker.
//
// A run can be stopped at two depths. An error in a step, or Interrupted, stops the steps: no step task begins any more
// and no further update either, but an update that has begun is finished everywhere, so that the devices stay in step
// with each other. Only an error inside an update stops everything.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "aspen/runtime/rendezvous.h"

namespace aspen {

// Asking whether to stop may mean taking the interpreter lock of the front end: not more often than this.
inline constexpr std::chrono::milliseconds kStopInterval{20};

// To wake a sleeping thread takes tens of microseconds, as long as a small task: bridge short waits without sleeping.
inline constexpr std::chrono::microseconds kPatience{50};

// Thrown to unwind a worker when another one has stopped the run.
struct Stopped {};

// Rounds of one task that are finished; on a cache line of its own, as one worker writes what another one watches.
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
  // num_computing: workers that take part in weight updates; per device one Rendezvous of its replicas.
  RunControl(std::size_t replicas, std::size_t num_devices, std::size_t num_step_tasks, std::size_t num_update_tasks,
             std::size_t num_computing);

  // How long a worker stays awake when it has to wait for another one. 0 unless every worker has a cpu of its own: it
  // would keep the one it waits for from running.
  void set_patience(std::chrono::microseconds patience) { patience_ = patience; }
  std::chrono::microseconds patience() const { return patience_; }

  // Forgets the last run; only while no worker runs.
  void reset();

  ProgressCounter& step(std::size_t replica, std::size_t task) { return steps_[replica * num_step_tasks_ + task]; }
  ProgressCounter& update(std::size_t replica, std::size_t task) {
    return updates_[replica * num_update_tasks_ + task];
  }
  const std::atomic<bool>& steps_stopped() const { return steps_stopped_; }
  const std::atomic<bool>& updates_stopped() const { return updates_stopped_; }

  void meet_before_update() { meet(before_update_); }
  void meet_on_device(std::size_t device) { meet(*on_device_[device]); }
  void meet_after_update() { meet(after_update_); }

  void stop_steps(std::exception_ptr error);
  void stop_everything(std::exception_ptr error);
  std::exception_ptr error();  // the first one; nullptr if all went well
  bool update_failed() const { return updates_stopped_.load(); }

 private:
  static void meet(Rendezvous& rendezvous) {
    if (!rendezvous.meet()) throw Stopped();
  }
  void keep_first(std::exception_ptr error);

  std::chrono::microseconds patience_{0};
  std::size_t num_step_tasks_, num_update_tasks_;
  std::vector<ProgressCounter> steps_, updates_;
  Rendezvous before_update_, after_update_;
  std::vector<std::unique_ptr<Rendezvous>> on_device_;
  std::atomic<bool> steps_stopped_{false}, updates_stopped_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

}  // namespace aspen
