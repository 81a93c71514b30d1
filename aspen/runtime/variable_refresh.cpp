#include "aspen/runtime/variable_refresh.h"

#include <algorithm>
#include <cstring>

namespace aspen {
namespace {

bool overlaps(const BufferRef& a, const BufferRef& b) {
  return !a.absent && a.arena == b.arena && a.owner == b.owner && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

bool is_refreshed(const Program& program, const ProgramVariable& variable) {
  bool is_gathered = variable.gathered && program.replicas > 1;
  return (is_gathered || variable.places.size() > 1) && is_updated(program, variable);
}

// Whether steps on other devices than its own read the variable where it is, which off the devices they do.
bool is_read_from_afar(const Program& program, const ProgramVariable& variable) {
  const BufferRef& home = variable.places.front();
  if (home.arena != Arena::kHostVariables) return false;
  for (const Task& task : program.step) {
    if (task.device == home.owner) continue;
    for (const Instruction& instruction : task.instructions) {
      for (const BufferRef& input : instruction.inputs) {
        if (overlaps(input, home)) return true;
      }
    }
    for (const OutputCopy& output : task.outputs) {
      if (overlaps(output.from, home)) return true;
    }
  }
  return false;
}

}  // namespace

bool is_updated(const Program& program, const ProgramVariable& variable) {
  for (const Task& task : program.update) {
    for (const Instruction& instruction : task.instructions) {
      for (const BufferRef& output : instruction.outputs) {
        if (overlaps(output, variable.places.front())) return true;
      }
    }
  }
  return false;
}

bool needs_meeting_after_update(const Program& program) {
  return std::any_of(program.variables.begin(), program.variables.end(), [&](const ProgramVariable& variable) {
    return is_refreshed(program, variable) || (is_read_from_afar(program, variable) && is_updated(program, variable));
  });
}

std::vector<MemoryCopy> plan_refresh(const Program& program, const std::vector<ReplicaMemory>& memories,
                                     std::size_t replica, std::size_t device) {
  std::vector<MemoryCopy> copies;
  for (const ProgramVariable& variable : program.variables) {
    if (!is_refreshed(program, variable)) continue;
    const BufferRef& home = variable.places.front();
    std::size_t element = size_of(variable.type.dtype);
    for (const BufferRef& place : variable.places) {
      if (place.owner != device) continue;
      bool is_home = &place == &home;
      std::byte* to = memories[replica].address(place).base;
      if (!variable.gathered) {
        if (!is_home) copies.push_back({to, memories[replica].address(home).base, home.bytes});
        continue;
      }
      for (std::size_t other = 0; other < program.replicas; ++other) {
        auto [first, last] = shard_of(variable.type.numel(), other, program.replicas);
        if (first == last || (is_home && other == replica)) continue;
        auto offset = static_cast<std::size_t>(first) * element;
        copies.push_back({to + offset, memories[other].address(home).base + offset,
                          static_cast<std::size_t>(last - first) * element});
      }
    }
  }
  return copies;
}

void run(const std::vector<MemoryCopy>& copies) {
  for (const MemoryCopy& copy : copies) std::memcpy(copy.to, copy.from, copy.bytes);
}

}  // namespace aspen
