// Memory for chunks that run at the same time: each takes the lowest slot that is free, so that a thread finds the
// memory of its last chunk in its cache, and on few threads few slots are ever touched. Results do not depend on which.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "aspen/backends/cpu/chunks.h"

namespace aspen {

class Slots {
 public:
  static constexpr std::int64_t kMost = 64;  // chunks at the same time
  static_assert(kMostChunks <= kMost);

  // Holds a slot while it lives.
  class Held {
   public:
    explicit Held(Slots& slots) : slots_(slots) {
      std::uint64_t taken = slots.taken_.load(std::memory_order_relaxed);
      do index_ = std::countr_one(taken);
      while (!slots.taken_.compare_exchange_weak(taken, taken | bit(), std::memory_order_acquire));
    }
    ~Held() { slots_.taken_.fetch_and(~bit(), std::memory_order_release); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

    std::size_t index() const { return static_cast<std::size_t>(index_); }

   private:
    std::uint64_t bit() const { return std::uint64_t{1} << index_; }

    Slots& slots_;
    int index_ = 0;
  };

 private:
  std::atomic<std::uint64_t> taken_{0};
};

}  // namespace aspen
