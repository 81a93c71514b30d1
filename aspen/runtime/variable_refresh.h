// What has to be copied after a weight update: variables read on several devices from their home to the other places,
// and the shards that other replicas have updated. Planned when a program is loaded, run by the workers.
#pragma once

#include <cstddef>
#include <vector>

#include "aspen/runtime/program.h"
#include "aspen/runtime/replica_memory.h"

namespace aspen {

struct MemoryCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
};

// Whether an update task writes the variable at its home.
bool is_updated(const Program& program, const ProgramVariable& variable);

// Whether devices and replicas have to wait for each other after an update: one of them has something to refresh, or
// its steps read off the devices what an update of another one writes there.
bool needs_meeting_after_update(const Program& program);

// The copies into places on one device of one replica. They read only what updates wrote, so that all devices of all
// replicas may do theirs at the same time.
std::vector<MemoryCopy> plan_refresh(const Program& program, const std::vector<ReplicaMemory>& memories,
                                     std::size_t replica, std::size_t device);

void run(const std::vector<MemoryCopy>& copies);

}  // namespace aspen
