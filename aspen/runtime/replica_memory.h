// The memory of one replica: per device its variables, constants and scratch, per lane its slots, and what is kept off
// the devices. Made by the executor when a program is loaded; tells where a buffer of the program is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "aspen/runtime/arena_memory.h"
#include "aspen/runtime/program.h"

namespace aspen {

// Where a buffer is: one place, or one per slot of a lane.
struct BufferAddress {
  std::byte* base = nullptr;  // nullptr: an absent input
  std::size_t stride = 0;     // from slot to slot
  std::int64_t depth = 1;

  std::byte* at(std::int64_t round) const { return depth == 1 ? base : base + (round % depth) * stride; }
};

class ReplicaMemory {
 public:
  ReplicaMemory(const Program& program, ArenaMemory::Fill fill);

  bool begins_with_zeros() const { return fill_ == ArenaMemory::Fill::kZero; }
  // InternalError if the buffer lies outside its arena.
  BufferAddress address(const BufferRef& buffer) const;

  // Bytes of a device, and off the device on its behalf, that have been written since the program was loaded.
  std::size_t touched_bytes(std::size_t device) const;
  std::size_t touched_host_bytes(std::size_t device) const;

 private:
  struct DeviceArenas {
    ArenaMemory variables, constants, scratch, host_variables, packed;
  };
  struct LaneArenas {
    ArenaMemory slots, host_slots;
  };
  const ArenaMemory& arena_of(const BufferRef& buffer) const;

  const Program& program_;
  ArenaMemory::Fill fill_;
  std::vector<DeviceArenas> devices_;
  std::vector<LaneArenas> lanes_;
};

}  // namespace aspen
