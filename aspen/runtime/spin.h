// Waiting without sleeping, for as long as it takes less than waking up: to wake a sleeping thread takes tens of
// microseconds. Used wherever threads of the runtime wait for each other.
#pragma once

#include <chrono>

namespace aspen {

// Bridges the small pieces of work between two large ones, and is too short to be seen in the load.
inline constexpr std::chrono::microseconds kPatience{50};

// Lets the other thread of the core run. Not sched_yield: that hands the cpu to whoever else is busy on the machine,
// for milliseconds, while somebody asleep is woken at once.
inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether done() became true within the patience; asked at least once. A patience of 0 is for threads that share a cpu:
// one that stays awake would keep the one it waits for from running.
template <class Done>
bool spin_until(const Done& done, std::chrono::microseconds patience) {
  if (done()) return true;
  if (patience.count() == 0) return false;
  auto end = std::chrono::steady_clock::now() + patience;
  do {
    for (int i = 0; i < 32; ++i) {
      pause_briefly();
      if (done()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace aspen
