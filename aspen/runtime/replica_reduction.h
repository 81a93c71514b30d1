// Adds up the accumulators of several replicas before a weight update. The work is cut into pieces, which the crews
// share when they meet (see RunControl); each is written to all replicas of a group, so that the whole group ends with
// the same bits. Planned when a program is loaded.
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

// All that is to be done before an update, in pieces that take about as long as it takes to share them out.
std::vector<Reduction> plan_reductions(const Program& program, const std::vector<ReplicaMemory>& memories);

// Adds in ascending order of the replicas; half adds up in float and is rounded once.
void run(const Reduction& reduction);

}  // namespace aspen
