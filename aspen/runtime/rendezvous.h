// A place where several threads wait for each other, again and again: a barrier that can be called off. Used by the
// workers around a weight update.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace aspen {

class Rendezvous {
 public:
  explicit Rendezvous(std::size_t num_threads) : num_threads_(num_threads) {}

  // Returns true to all once all have come; false if it was called off before that. All that meet get the same answer.
  bool meet();
  // Releases all that wait and all that come later, until reset().
  void call_off();
  // Only while nobody waits.
  void reset();

 private:
  std::mutex mutex_;
  std::condition_variable complete_;
  std::size_t num_threads_, num_waiting_ = 0;
  std::uint64_t num_met_ = 0;
  bool is_off_ = false;
};

}  // namespace aspen
