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

// An update task of a replica.
struct UpdateOf {
  std::size_t replica = 0, task = 0;
  auto operator<=>(const UpdateOf&) const = default;
};

// The updates that write what the copies of one device of one replica read, or what its steps read off the devices;
// ascending.
std::vector<UpdateOf> updates_before_refresh(const Program& program, std::size_t replica, std::size_t device);

// The devices whose refresh must have come before the steps of a device: those that gather shards off the devices, in
// the place where it reads them. Ascending.
std::vector<std::size_t> refreshes_before_steps(const Program& program, std::size_t device);

// The copies into places on one device of one replica. They read only what updates wrote, so that all devices of all
// replicas may do theirs at the same time.
std::vector<MemoryCopy> plan_refresh(const Program& program, const std::vector<ReplicaMemory>& memories,
                                     std::size_t replica, std::size_t device);

void run(const std::vector<MemoryCopy>& copies);

}  // namespace aspen
