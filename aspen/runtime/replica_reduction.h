// Adds up the accumulators of several replicas before a weight update. Every replica of a group does its part of every
// variable and writes the sum to all, so that the whole group ends with the same bits. Planned when a program is
// loaded, run by the workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "aspen/runtime/program.h"
#include "aspen/runtime/replica_memory.h"

namespace aspen {

// Elements [first, last) of one variable, at these addresses in the replicas of a group, ascending.
struct Reduction {
  DType dtype = DType::kF32;
  std::int64_t first = 0, last = 0;
  std::vector<std::byte*> members;
};

// Whether replicas have to wait for each other before an update because of variables at home on the device.
bool needs_reduction(const Program& program, std::size_t device);

// The part of one replica in the variables at home on a device.
std::vector<Reduction> plan_reductions(const Program& program, const std::vector<ReplicaMemory>& memories,
                                       std::size_t replica, std::size_t device);

// Adds in ascending order of the replicas; half adds up in float and is rounded once.
void run(const Reduction& reduction);

}  // namespace aspen
