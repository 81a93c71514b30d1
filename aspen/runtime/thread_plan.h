// Which devices share a thread. To hand work from thread to thread takes microseconds, and milliseconds on a machine
// that is busy with something else: devices get threads of their own only where they can work at the same time, on cpus
// of their own, and long enough to be worth it. Results do not depend on it. Made by the executor.
#pragma once

#include <cstddef>
#include <vector>

#include "aspen/runtime/program.h"

namespace aspen {

// Work of less than this, in nanoseconds, between two points where threads wait for each other stays on one thread.
inline constexpr double kLeastShare = 50'000;

// Whether a device has instructions; one that has none only moves inputs and outputs.
bool computes(const Program& program, std::size_t device);
// Whether its instructions only bring values to other devices.
bool only_brings(const Program& program, std::size_t device);

// A crew is a group of devices in each replica of a group of replicas: those that one thread runs.
struct ThreadPlan {
  using Groups = std::vector<std::vector<std::size_t>>;
  Groups devices;                 // that have tasks; ascending. Those that compute first, then those that only bring
                                  // values to them, then those that only move inputs and outputs
  Groups replicas;                // all of them, ascending
  std::size_t num_computing = 0;  // of the groups of devices: those with instructions
  std::size_t num_working = 0;    // of these: those that compute

  std::size_t num_crews() const { return devices.size() * replicas.size(); }
};

// - Devices that take turns share a thread, and so do all of a replica that has no more than one cpu.
// - Stages of a pipeline share threads with their neighbours as long as a thread would have less than kLeastShare of
// work
//   per micro-batch or there are more of them than cpus; replicas likewise, counting the work per weight update.
// - Where that would leave threads with clearly more to do than others, there are as many threads as devices or
//   replicas, and the system balances them.
ThreadPlan plan_threads(const Program& program, std::size_t num_cpus);
// A thread for every device of every replica.
ThreadPlan thread_per_device(const Program& program);

}  // namespace aspen
