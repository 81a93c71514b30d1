#include "aspen/runtime/run_control.h"

#include <limits>
#include <thread>

namespace aspen {

// All operations on counters and flags are sequentially consistent. Two things rest on it:
// - set() stores before notify looks for sleepers, and a sleeper announces itself before it compares: no wake-up is
//   lost.
// - the flag is set before release() stores. Whoever then sees release()'s value, or one that a worker stored over it,
//   also sees the flag; whoever had looked before finds another value than the one it wants to sleep on, because a
//   counter never takes a value twice.
void ProgressCounter::set(std::int64_t finished) {
  finished_.store(static_cast<std::int32_t>(finished));
  finished_.notify_all();
}

void ProgressCounter::release() {
  finished_.store(std::numeric_limits<std::int32_t>::max());
  finished_.notify_all();
}

void ProgressCounter::wait(std::int64_t finished, const std::atomic<bool>& stopped,
                           std::chrono::microseconds patience) {
  std::chrono::steady_clock::time_point end;  // of the time awake
  for (bool is_first = true;; is_first = false) {
    std::int32_t value = finished_.load();
    if (stopped.load()) throw Stopped();
    if (value >= finished) return;
    if (is_first) end = std::chrono::steady_clock::now() + patience;
    if (std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    } else {
      finished_.wait(value);
    }
  }
}

RunControl::RunControl(std::size_t replicas, std::size_t num_devices, std::size_t num_step_tasks,
                       std::size_t num_update_tasks, std::size_t num_computing)
    : num_step_tasks_(num_step_tasks), num_update_tasks_(num_update_tasks), steps_(replicas * num_step_tasks),
      updates_(replicas * num_update_tasks), before_update_(num_computing), after_update_(num_computing) {
  for (std::size_t d = 0; d < num_devices; ++d) on_device_.push_back(std::make_unique<Rendezvous>(replicas));
}

void RunControl::reset() {
  for (ProgressCounter& counter : steps_) counter.reset();
  for (ProgressCounter& counter : updates_) counter.reset();
  before_update_.reset();
  after_update_.reset();
  for (auto& rendezvous : on_device_) rendezvous->reset();
  steps_stopped_.store(false);
  updates_stopped_.store(false);
  error_ = nullptr;
}

void RunControl::stop_steps(std::exception_ptr error) {
  keep_first(std::move(error));
  steps_stopped_.store(true);
  for (ProgressCounter& counter : steps_) counter.release();
  before_update_.call_off();
}

void RunControl::stop_everything(std::exception_ptr error) {
  stop_steps(std::move(error));
  updates_stopped_.store(true);
  for (ProgressCounter& counter : updates_) counter.release();
  for (auto& rendezvous : on_device_) rendezvous->call_off();
  after_update_.call_off();
}

void RunControl::keep_first(std::exception_ptr error) {
  std::lock_guard lock(error_mutex_);
  if (!error_) error_ = std::move(error);
}

std::exception_ptr RunControl::error() {
  std::lock_guard lock(error_mutex_);
  return error_;
}

}  // namespace aspen
