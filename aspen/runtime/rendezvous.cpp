#include "aspen/runtime/rendezvous.h"

#include <utility>

#include "aspen/runtime/spin.h"

namespace aspen {

Rendezvous::Rendezvous(std::size_t num_threads, std::size_t num_pieces, std::function<void(std::size_t)> work)
    : num_threads_(num_threads), num_pieces_(num_pieces), work_(std::move(work)) {}

Rendezvous::Outcome Rendezvous::meet(std::chrono::microseconds patience) {
  if (!come(patience)) return {};
  return {.has_met = true, .working = num_pieces_ > 0 ? share_work(patience) : Clock::duration{}};
}

bool Rendezvous::come(std::chrono::microseconds patience) {
  std::uint32_t before = 0;
  {
    std::lock_guard lock(mutex_);
    if (is_off_) return false;
    before = num_met_;
    if (++num_waiting_ == num_threads_) {
      num_waiting_ = 0;
      next_piece_ = 0;
      unfinished_ = static_cast<std::uint32_t>(num_pieces_);
      num_met_ = before + 1;
      complete_.notify_all();
      return true;
    }
  }
  spin_until([&] { return num_met_ != before || is_off_; }, patience);
  if (num_met_ != before) return true;
  std::unique_lock lock(mutex_);
  complete_.wait(lock, [&] { return num_met_ != before || is_off_; });
  return num_met_ != before;  // complete is complete, even when called off a moment later
}

Rendezvous::Clock::duration Rendezvous::share_work(std::chrono::microseconds patience) {
  auto start = Clock::now();
  for (std::size_t piece = next_piece_++; piece < num_pieces_; piece = next_piece_++) {
    work_(piece);
    if (--unfinished_ == 0) unfinished_.notify_all();
  }
  auto end = Clock::now();
  spin_until([&] { return unfinished_ == 0; }, patience);
  for (std::uint32_t left = unfinished_; left != 0; left = unfinished_) unfinished_.wait(left);
  return end - start;
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
