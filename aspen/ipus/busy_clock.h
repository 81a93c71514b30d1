// How long a device has computed, in one number that another process can read at any time: BusyClock writes it, a store
// when work begins and one when it ends, and busy_at() reads it, also in the middle of work that takes minutes.
//
//   at rest   2 * total
//   at work   2 * (begin - total) + 1, so that the total at any later time is that time less this
//
// Nanoseconds of the steady clock, which all processes of a machine share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace aspen {

using BusyCell = std::atomic<std::int64_t>;

class BusyClock {
 public:
  using Clock = std::chrono::steady_clock;

  BusyClock() = default;                                // nobody looks
  explicit BusyClock(BusyCell& cell) : cell_(&cell) {}  // at rest, nothing done yet

  void begin(Clock::time_point now) { set(2 * (nanoseconds(now.time_since_epoch()) - total_) + 1, now, true); }
  void end(Clock::time_point now) {
    if (!is_busy_) return;
    total_ += nanoseconds(now - begin_);
    set(2 * total_, now, false);
  }
  // Work that is over; only at rest.
  void add(Clock::duration work) {
    total_ += nanoseconds(work);
    set(2 * total_, begin_, false);
  }

 private:
  static std::int64_t nanoseconds(Clock::duration time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  }
  void set(std::int64_t value, Clock::time_point begin, bool is_busy) {
    begin_ = begin;
    is_busy_ = is_busy;
    if (cell_ != nullptr) cell_->store(value, std::memory_order_relaxed);
  }

  BusyCell* cell_ = nullptr;
  std::int64_t total_ = 0;
  Clock::time_point begin_;
  bool is_busy_ = false;
};

// The total in nanoseconds that a cell held `value` for at `now`.
inline std::int64_t busy_at(std::int64_t value, BusyClock::Clock::time_point now) {
  if ((value & 1) == 0) return value / 2;
  const auto time = std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count();
  return time - (value - 1) / 2;
}

}  // namespace aspen
