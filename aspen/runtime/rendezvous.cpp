#include "aspen/runtime/rendezvous.h"

namespace aspen {

bool Rendezvous::meet() {
  std::unique_lock lock(mutex_);
  if (is_off_) return false;
  if (++num_waiting_ == num_threads_) {
    num_waiting_ = 0;
    ++num_met_;
    complete_.notify_all();
    return true;
  }
  std::uint64_t before = num_met_;
  complete_.wait(lock, [&] { return num_met_ != before || is_off_; });
  return num_met_ != before;  // complete is complete, even when called off a moment later
}

void Rendezvous::call_off() {
  std::lock_guard lock(mutex_);
  is_off_ = true;
  complete_.notify_all();
}

void Rendezvous::reset() {
  std::lock_guard lock(mutex_);
  num_waiting_ = 0;
  is_off_ = false;
}

}  // namespace aspen
