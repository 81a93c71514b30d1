#include "aspen/runtime/replica_memory.h"

#include <cstring>

#include "aspen/base/error.h"

namespace aspen {
namespace {

bool is_slot(Arena arena) { return arena == Arena::kSlots || arena == Arena::kHostSlots; }

}  // namespace

ReplicaMemory::ReplicaMemory(const Program& program, ArenaMemory::Fill fill) : program_(program), fill_(fill) {
  for (const DevicePlan& plan : program.devices) {
    devices_.push_back({.variables = {plan.variable_bytes, "variables", fill},
                        .constants = {plan.constant_bytes, "constants", fill},
                        .scratch = {plan.scratch_bytes, "activations", fill},
                        .host_variables = {plan.host_variable_bytes, "variables kept off the device", fill},
                        .packed = {plan.packed_bytes, "packed weights", fill}});
  }
  for (const Lane& lane : program.lanes) {
    if (lane.depth < 1) throw InternalError("a lane of depth {}", lane.depth);
    auto depth = static_cast<std::size_t>(lane.depth);
    lanes_.push_back({.slots = {depth * slot_stride(lane.slot_bytes), "stored activations", fill},
                      .host_slots = {depth * slot_stride(lane.host_slot_bytes), "activations off the device", fill}});
  }
  for (const ProgramConstant& constant : program.constants) {
    if (constant.bytes.empty()) continue;
    void* place = address(constant.buffer).base;
    if (place == nullptr) throw InternalError("a constant lies in the memory of a call");
    std::memcpy(place, constant.bytes.data(), constant.bytes.size());
  }
}

const ArenaMemory& ReplicaMemory::arena_of(const BufferRef& buffer) const {
  std::size_t owners = is_slot(buffer.arena) ? lanes_.size() : devices_.size();
  if (buffer.owner >= owners) throw InternalError("a buffer in arena {} of {}", buffer.owner, owners);
  switch (buffer.arena) {
    case Arena::kVariables: return devices_[buffer.owner].variables;
    case Arena::kConstants: return devices_[buffer.owner].constants;
    case Arena::kScratch: return devices_[buffer.owner].scratch;
    case Arena::kHostVariables: return devices_[buffer.owner].host_variables;
    case Arena::kPacked: return devices_[buffer.owner].packed;
    case Arena::kSlots: return lanes_[buffer.owner].slots;
    case Arena::kHostSlots: return lanes_[buffer.owner].host_slots;
    case Arena::kInputs:
    case Arena::kOutputs: break;
  }
  throw InternalError("the memory of a call is no part of a replica");
}

BufferAddress ReplicaMemory::address(const BufferRef& buffer) const {
  if (buffer.absent) return {};
  const ArenaMemory& arena = arena_of(buffer);
  BufferAddress result{.base = arena.data() + buffer.offset};
  if (is_slot(buffer.arena)) result.depth = program_.lanes[buffer.owner].depth;
  std::size_t space = arena.bytes() / static_cast<std::size_t>(result.depth);
  if (result.depth > 1) result.stride = space;
  if (buffer.offset + buffer.bytes > space) {
    throw InternalError("a buffer ends at byte {} of an arena of {}", buffer.offset + buffer.bytes, space);
  }
  return result;
}

std::size_t ReplicaMemory::touched_bytes(std::size_t device) const {
  const DeviceArenas& arenas = devices_[device];
  std::size_t bytes = arenas.variables.touched_bytes() + arenas.constants.touched_bytes() +
                      arenas.scratch.touched_bytes() + arenas.packed.touched_bytes();
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (program_.lanes[i].device == device) bytes += lanes_[i].slots.touched_bytes();
  }
  return bytes;
}

std::size_t ReplicaMemory::touched_host_bytes(std::size_t device) const {
  std::size_t bytes = devices_[device].host_variables.touched_bytes();
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (program_.lanes[i].device == device) bytes += lanes_[i].host_slots.touched_bytes();
  }
  return bytes;
}

}  // namespace aspen
