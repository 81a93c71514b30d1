#include "aspen/runtime/run_control.h"

#include <limits>

#include "aspen/runtime/spin.h"
#include "aspen/runtime/task_order.h"

namespace aspen {

// All operations on counters and flags are sequentially consistent. Two things rest on it:
// - set() stores before notify looks for sleepers, and a sleeper announces itself before it compares: no wake-up is
//   lost.
// - the flag is set before release() stores. Whoever then sees release()'s value, or one that a crew stored over it,
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
  std::int32_t value = 0;
  auto is_over = [&] {
    value = finished_.load();
    return stopped.load() || value >= finished;
  };
  if (!spin_until(is_over, patience)) {
    while (!is_over()) finished_.wait(value);
  }
  if (stopped.load()) throw Stopped();
}

RunControl::RunControl(const Program& program, std::size_t num_computing, const std::vector<Reduction>& reductions)
    : num_step_tasks_(program.step.size()), num_update_tasks_(program.update.size()),
      num_devices_(program.devices.size()), steps_(program.replicas * num_step_tasks_),
      updates_(program.replicas * num_update_tasks_), refreshes_(program.replicas * num_devices_),
      turns_(num_turns(program)),
      before_update_(num_computing, reductions.size(), [&reductions](std::size_t i) { run(reductions[i]); }) {}

void RunControl::reset() {
  for (ProgressCounter& counter : steps_) counter.reset();
  for (ProgressCounter& counter : updates_) counter.reset();
  for (ProgressCounter& counter : refreshes_) counter.reset();
  for (ProgressCounter& counter : turns_) counter.reset();
  before_update_.reset();
  steps_stopped_.store(false);
  updates_stopped_.store(false);
  error_ = nullptr;
}

void RunControl::stop_steps(std::exception_ptr error) {
  keep_first(std::move(error));
  steps_stopped_.store(true);
  for (ProgressCounter& counter : steps_) counter.release();
  for (ProgressCounter& counter : turns_) counter.release();
  before_update_.call_off();
}

void RunControl::stop_everything(std::exception_ptr error) {
  stop_steps(std::move(error));
  updates_stopped_.store(true);
  for (ProgressCounter& counter : updates_) counter.release();
  for (ProgressCounter& counter : refreshes_) counter.release();
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
