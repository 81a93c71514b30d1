// Which cpus the process may use and how the workers of an executor share them: all busy, none twice.
#pragma once

#include <cstddef>
#include <thread>
#include <vector>

namespace aspen {

// The cpus the calling thread may run on (taskset, cgroups), ascending; at most `num_threads` of them. 0 stands for the
// environment variable ASPEN_NUM_THREADS, or all if that is not set; UserError if it is not a positive number.
std::vector<int> usable_cpus(std::size_t num_threads);

// Disjoint shares for `num_workers`, none empty, sizes differing by at most one; no shares at all if there are fewer
// cpus than workers: the system then balances better than a fixed assignment.
std::vector<std::vector<int>> share_cpus(const std::vector<int>& cpus, std::size_t num_workers);

// Moves a thread to a cpu; DeviceError if the system does not let it.
void pin(std::thread& thread, int cpu);

}  // namespace aspen
