// Watches training in half for gradients that are no longer finite, and finds the first op that overflowed: the one
// whose result left the range of its type although it was computed from finite numbers. Costs a look at the flags of
// the processor after each instruction; numbers are looked at only where one is raised. Owned by the executor, asked by
// the workers around their instructions, of which many may run at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "aspen/runtime/bound_task.h"

namespace aspen {

class OverflowWatch {
 public:
  // Where an instruction stands if one device runs all of them in turn.
  struct Place {
    std::int64_t cycle = 0;  // weight updates before it in this run
    bool is_update = false;  // in an update task
    std::int64_t micro_batch = 0;
    std::size_t task = 0, instruction = 0, replica = 0;
  };

  explicit OverflowWatch(const Program& program);

  // Training in half whose loss scaling nothing adjusts, and nothing has been reported yet.
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }

  // Before the tasks of a worker: what raised flags earlier is not ours.
  static void forget_flags();
  // Before an instruction that updates a weight: looks at its gradient if something has overflowed on the way there.
  void before_update(const BoundInstruction& bound, const Place& place);
  // After every instruction.
  void after(const BoundInstruction& bound, const Place& place);

  // After a run of so many cycles: warns, once, if an update has read a gradient that is not finite.
  void finish_run(std::int64_t cycles);

 private:
  // The numbers of cycles go on from run to run.
  struct Order {
    std::int64_t cycle = 0;
    bool is_update = false;
    std::int64_t micro_batch = 0;
    std::size_t task = 0, instruction = 0, replica = 0;
    bool operator<(const Order& other) const { return key() < other.key(); }

   private:
    std::tuple<std::int64_t, bool, std::int64_t, std::size_t, std::size_t, std::size_t> key() const {
      return {cycle, is_update, micro_batch, task, instruction, replica};
    }
  };
  struct Overflow {
    Order order;
    const Instruction* instruction = nullptr;
    TensorType type;
    std::int64_t micro_batch = 0;
  };

  Order order_of(const Place& place) const;
  void note(const BoundInstruction& bound, const TensorType& type, const Place& place);
  std::string report(const Overflow& overflow) const;

  std::atomic<bool> is_on_;
  std::size_t replicas_;
  std::int64_t cycles_before_ = 0;             // of earlier runs
  std::atomic<std::int64_t> noted_cycle_{-1};  // of first_
  std::mutex mutex_;
  std::optional<Overflow> first_;  // of the last cycle that had any
  bool reached_a_weight_ = false;  // then first_ stays
};

}  // namespace aspen
