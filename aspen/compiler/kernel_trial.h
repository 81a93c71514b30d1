// Runs candidates for a request on memory of its own and tells which is the fastest, as far as time allows. Used by
// choose_kernels.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aspen/backends/api/kernel.h"
#include "aspen/runtime/arena_memory.h"

namespace aspen {

class KernelTrial {
 public:
  using Clock = std::chrono::steady_clock;

  // With as many threads as a device has that is alone in its process.
  KernelTrial(const Backend& backend, Clock::time_point deadline);
  ~KernelTrial();

  // names: those by rule first, which win unless another is clearly faster. Nothing: there was no time, or no memory.
  std::optional<std::string> fastest(const KernelRequest& request, const std::vector<std::string>& names);

 private:
  struct Entry;
  std::vector<Entry> make_entries(const KernelRequest& request, const std::vector<std::string>& names) const;
  bool take_memory(const KernelRequest& request, const std::vector<Entry>& entries);
  Clock::duration run(const Entry& entry, int count);
  bool is_over() const { return Clock::now() >= deadline_; }

  const Backend& backend_;
  Clock::time_point deadline_;
  std::unique_ptr<ThreadTeam> team_;
  StepContext step_;
  ArenaMemory memory_;
  std::size_t bytes_ = 0;  // of it
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  void* workspace_ = nullptr;
};

}  // namespace aspen
