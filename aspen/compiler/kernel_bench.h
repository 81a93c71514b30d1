// Runs kernels on memory of its own, to see how long they take. Used by kernel_trial.h and measure_parts.h.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "aspen/backends/api/kernel.h"
#include "aspen/runtime/arena_memory.h"

namespace aspen {

class KernelBench {
 public:
  using Clock = std::chrono::steady_clock;

  // num_threads: of the kernels; 0: as many as a device has that is alone in its process.
  explicit KernelBench(std::size_t num_threads = 0);
  ~KernelBench();

  std::size_t num_threads() const;
  // Memory for the operands of a request, for a workspace and for what is packed of an operand that stays: normal
  // floats, integers that are 0. False: there would be too much of it.
  bool take_memory(const KernelRequest& request, std::size_t workspace_bytes, std::size_t packed_bytes);
  // The time of one run of a kernel for that request, in which operands that stay are packed.
  Clock::duration run(const Kernel& kernel, int count);

 private:
  std::unique_ptr<ThreadTeam> team_;
  StepContext step_;
  ArenaMemory memory_;
  std::size_t bytes_ = 0;  // of it
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::vector<bool> stays_;  // by input
  void *workspace_ = nullptr, *packed_ = nullptr;
};

}  // namespace aspen
