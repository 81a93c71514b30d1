// Runs candidates for a request on memory of its own and tells which is the fastest, as far as time allows. Used by
// choose_kernels.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "aspen/backends/api/kernel.h"
#include "aspen/compiler/kernel_bench.h"

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
  KernelBench bench_;
};

}  // namespace aspen
