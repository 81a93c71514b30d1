#include "aspen/runtime/call_queue.h"

#include "aspen/base/error.h"
#include "aspen/runtime/run_control.h"

namespace aspen {

thread_local const CallQueue::Work* CallQueue::current_ = nullptr;

// Whether the calling thread works for a call of this queue.
bool CallQueue::is_served_here() const {
  for (const Work* work = current_; work != nullptr; work = work->outer_) {
    if (&work->queue_ == this) return true;
  }
  return false;
}

CallQueue::Turn::Turn(CallQueue& queue, const std::function<bool()>& should_stop) : queue_(queue) {
  if (queue.is_served_here()) {
    throw UserError(
        "an executor was called from within its own run, by an op on the host or while asking whether to stop; the "
        "call "
        "would wait for itself. Call it when the run has ended, or use another executor.");
  }
  {
    std::lock_guard lock(queue_.mutex_);
    (queue_.last_ == nullptr ? queue_.first_ : queue_.last_->next_) = this;
    queue_.last_ = this;
  }
  try {
    wait(should_stop);
  } catch (...) {
    leave();
    throw;
  }
}

CallQueue::Turn::~Turn() { leave(); }

void CallQueue::Turn::wait(const std::function<bool()>& should_stop) {
  std::unique_lock lock(queue_.mutex_);
  auto has_begun = [this] { return queue_.first_ == this; };
  while (should_stop && !begins_.wait_for(lock, kStopInterval, has_begun)) {
    lock.unlock();
    if (should_stop()) throw Interrupted();
    lock.lock();
  }
  begins_.wait(lock, has_begun);
}

void CallQueue::Turn::leave() {
  std::lock_guard lock(queue_.mutex_);
  if (queue_.first_ == this) {
    queue_.first_ = next_;
    if (next_ == nullptr) queue_.last_ = nullptr;
    // Under the lock: the next one may end, and its condition variable with it, as soon as it has it.
    if (next_ != nullptr) next_->begins_.notify_one();
    return;
  }
  Turn* before = queue_.first_;
  while (before->next_ != this) before = before->next_;
  before->next_ = next_;
  if (queue_.last_ == this) queue_.last_ = before;
}

}  // namespace aspen
