// Which cpus the process may use and how the threads of an executor share them: all busy, none twice.
#pragma once

#include <sched.h>

#include <cstddef>
#include <filesystem>
#include <thread>
#include <vector>

namespace aspen {

struct UsableCpus {
  std::vector<int> cpus;  // ascending; at least one
  // Whether these are all the process may use. If not, it leaves the choice to the system: other processes that use a
  // part would take the same first cpus.
  bool are_all = true;
};

// As many of the cpus the calling thread may run on (taskset, cgroups) as `num_threads` says. 0 stands for the
// environment variable ASPEN_NUM_THREADS or, without it, for all, but not more than the control group of the process
// allows cpu time for, rounded up (see cpu_quota). UserError if the variable is not a positive number. `root` is where
// /proc and /sys are.
UsableCpus usable_cpus(std::size_t num_threads, const std::filesystem::path& root = "/");

// Disjoint shares for `num_threads`, none empty, sizes differing by at most one; no shares at all if there are fewer
// cpus than threads: the system then balances better than a fixed assignment.
std::vector<std::vector<int>> share_cpus(const std::vector<int>& cpus, std::size_t num_threads);

// Moves a thread to a cpu; DeviceError if the system does not let it.
void pin(std::thread& thread, int cpu);

// Where a thread may run, so that it can go back there.
class CpuMask {
 public:
  static CpuMask of_this_thread();

  // While it lives, the calling thread may run on the cpus of the mask; afterwards where it could before. Threads
  // started meanwhile inherit the mask.
  class Scope {
   public:
    explicit Scope(const CpuMask& mask);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    bool has_changed_ = false;
    cpu_set_t before_;
  };

 private:
  bool is_known_ = false;  // false: more cpus than the set has room for; such a mask is left alone
  cpu_set_t set_;
};

}  // namespace aspen
