// The place where the crews of a program wait for each other before a weight update: a barrier that can be called off,
// and whose guests share a piece of work before they go on. Who is woken late finds the work done by the others.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

namespace aspen {

class Rendezvous {
 public:
  // work(0) .. work(num_pieces - 1) are called once per meeting, each on any of the threads; must not throw.
  explicit Rendezvous(std::size_t num_threads, std::size_t num_pieces = 0,
                      std::function<void(std::size_t piece)> work = {});

  using Clock = std::chrono::steady_clock;
  struct Outcome {
    bool has_met = false;
    Clock::duration working{};  // spent on pieces of the work
  };

  // Returns once all have come and the work is done, or it was called off before all had come. All that come get the
  // same answer. Waits awake for as long as `patience`, then asleep.
  Outcome meet(std::chrono::microseconds patience = {});
  // Releases all that wait and all that come later, until reset(). A meeting that is complete goes on.
  void call_off();
  // Only while nobody waits.
  void reset();

 private:
  bool come(std::chrono::microseconds patience);
  Clock::duration share_work(std::chrono::microseconds patience);

  std::size_t num_threads_, num_pieces_;
  std::function<void(std::size_t)> work_;
  std::mutex mutex_;
  std::condition_variable complete_;
  std::size_t num_waiting_ = 0;
  std::atomic<std::uint32_t> num_met_{0};  // changed under the mutex, watched without
  std::atomic<bool> is_off_{false};        // likewise
  // Of the meeting that is complete; nobody comes to the next one before the work of this one is done.
  std::atomic<std::size_t> next_piece_{0};
  std::atomic<std::uint32_t> unfinished_{0};
};

}  // namespace aspen
