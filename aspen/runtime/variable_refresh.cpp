#include "aspen/runtime/variable_refresh.h"

#include <algorithm>
#include <cstring>

namespace aspen {
namespace {

bool overlaps(const BufferRef& a, const BufferRef& b) {
  return !a.absent && a.arena == b.arena && a.owner == b.owner && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

bool is_gathered(const Program& program, const ProgramVariable& variable) {
  return variable.gathered && program.replicas > 1;
}

bool is_refreshed(const Program& program, const ProgramVariable& variable) {
  return (is_gathered(program, variable) || variable.places.size() > 1) && is_updated(program, variable);
}

// Whether the device copies the variable after an update, to its home or elsewhere.
bool copies(const Program& program, const ProgramVariable& variable, std::size_t device) {
  if (!is_refreshed(program, variable)) return false;
  auto is_copied = [&](const BufferRef& place) {
    bool is_home = &place == &variable.places.front();
    return place.owner == device && (!is_home || is_gathered(program, variable));
  };
  return std::any_of(variable.places.begin(), variable.places.end(), is_copied);
}

// Whether steps of the device read the variable where it is, which off the devices those of any device do.
bool reads_from_afar(const Program& program, const ProgramVariable& variable, std::size_t device) {
  const BufferRef& home = variable.places.front();
  if (home.arena != Arena::kHostVariables || home.owner == device) return false;
  for (const Task& task : program.step) {
    if (task.device != device) continue;
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

// Whether steps of the device read the variable in all replicas.
bool gathers(const Program& program, const ProgramVariable& variable, std::size_t device) {
  for (const Task& task : program.step) {
    if (task.device != device) continue;
    for (const Instruction& instruction : task.instructions) {
      if (instruction.spans_replicas && overlaps(instruction.inputs[0], variable.places.front())) return true;
    }
  }
  return false;
}

// Whether an update task writes the variable at its home.
bool writes(const Task& task, const ProgramVariable& variable) {
  for (const Instruction& instruction : task.instructions) {
    for (const BufferRef& output : instruction.outputs) {
      if (overlaps(output, variable.places.front())) return true;
    }
  }
  return false;
}

template <class T>
std::vector<T> sorted(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

}  // namespace

bool is_updated(const Program& program, const ProgramVariable& variable) {
  return std::any_of(program.update.begin(), program.update.end(),
                     [&](const Task& task) { return writes(task, variable); });
}

std::vector<UpdateOf> updates_before_refresh(const Program& program, std::size_t replica, std::size_t device) {
  std::vector<UpdateOf> updates;
  for (const ProgramVariable& variable : program.variables) {
    bool is_copied = copies(program, variable, device), is_shared = gathers(program, variable, device);
    if (!is_copied && !is_shared && !reads_from_afar(program, variable, device)) continue;
    bool is_from_all = is_shared || (is_copied && is_gathered(program, variable));
    for (std::size_t task = 0; task < program.update.size(); ++task) {
      if (!writes(program.update[task], variable)) continue;
      for (std::size_t other = 0; other < program.replicas; ++other) {
        if (is_from_all || other == replica) updates.push_back({.replica = other, .task = task});
      }
    }
  }
  return sorted(std::move(updates));
}

std::vector<std::size_t> refreshes_before_steps(const Program& program, std::size_t device) {
  std::vector<std::size_t> devices;
  for (const ProgramVariable& variable : program.variables) {
    if (!is_gathered(program, variable) || !is_updated(program, variable)) continue;
    if (reads_from_afar(program, variable, device)) devices.push_back(variable.places.front().owner);
  }
  return sorted(std::move(devices));
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
