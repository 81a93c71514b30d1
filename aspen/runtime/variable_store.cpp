#include "aspen/runtime/variable_store.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "aspen/backends/api/convert.h"
#include "aspen/base/error.h"
#include "aspen/runtime/variable_refresh.h"

namespace aspen {
namespace {

// Values the host sees of a variable.
std::size_t num_host_values(const ProgramVariable& variable, std::size_t replicas) {
  return variable.grouping.returns_all ? replicas : variable.grouping.num_groups(replicas);
}

// Which of these a replica holds.
std::size_t host_value_of(const ProgramVariable& variable, std::size_t replica, std::size_t replicas) {
  return variable.grouping.returns_all ? replica : variable.grouping.group_of(replica, replicas);
}

struct ByteRange {
  std::size_t first = 0, size = 0;
};

ByteRange shard_bytes(const ProgramVariable& variable, std::size_t replica, std::size_t replicas) {
  auto [first, last] = shard_of(variable.type.numel(), replica, replicas);
  std::size_t element = size_of(variable.type.dtype);
  return {static_cast<std::size_t>(first) * element, static_cast<std::size_t>(last - first) * element};
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

}  // namespace

VariableStore::VariableStore(const Program& program, const std::vector<ReplicaMemory>& memories)
    : program_(program), memories_(memories) {
  for (const ProgramVariable& variable : program.variables) {
    check(variable);
    by_name_.emplace(variable.name, &variable);
    const bool is_zero = variable.initial == 0 && !std::signbit(variable.initial);
    const bool is_there = std::all_of(memories.begin(), memories.end(),
                                      [](const ReplicaMemory& memory) { return memory.begins_with_zeros(); });
    if (!is_zero || !is_there) fill(variable);
  }
}

void VariableStore::check(const ProgramVariable& variable) const {
  std::size_t elements = static_cast<std::size_t>(
      variable.sharded ? shard_elements(variable.type.numel(), program_.replicas) : variable.type.numel());
  std::size_t bytes = elements * size_of(variable.type.dtype);
  if (variable.places.empty()) throw InternalError("variable \"{}\" has no place", variable.name);
  for (const BufferRef& place : variable.places) {
    if (place.bytes < bytes) {
      throw InternalError("variable \"{}\" takes {} bytes; its place has {}", variable.name, bytes, place.bytes);
    }
  }
  bool is_spread = variable.sharded || variable.gathered;
  if (is_spread && variable.grouping.num_groups(program_.replicas) != 1) {
    throw InternalError("variable \"{}\" is sharded over all replicas, but they do not hold the same value",
                        variable.name);
  }
  if (variable.sharded && (variable.reduced || variable.gathered)) {
    throw InternalError("variable \"{}\" is kept in shards, which can be neither reduced nor gathered", variable.name);
  }
}

void VariableStore::fill(const ProgramVariable& variable) const {
  std::size_t element = size_of(variable.type.dtype);
  dispatch_stored(variable.type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (const ReplicaMemory& memory : memories_) {
      for (const BufferRef& place : variable.places) {
        std::fill_n(reinterpret_cast<T*>(memory.address(place).base), place.bytes / element,
                    convert<T>(variable.initial));
      }
    }
  });
}

std::byte* VariableStore::address(const ProgramVariable& variable, std::size_t replica, std::size_t place) const {
  return memories_[replica].address(variable.places[place]).base;
}

const ProgramVariable& VariableStore::find(std::string_view name) const {
  auto found = by_name_.find(name);
  if (found != by_name_.end()) return *found->second;
  std::vector<std::string> names;
  for (const auto& [known, variable] : by_name_) names.push_back(known);
  throw UserError("the program has no variable \"{}\"; close matches: {}.", name, near_matches(name, names));
}

const ProgramVariable& VariableStore::find(std::string_view name, std::size_t bytes) const {
  const ProgramVariable& variable = find(name);
  std::size_t values = num_host_values(variable, program_.replicas);
  std::size_t expected = values * variable.type.bytes();
  if (expected == bytes) return variable;
  throw UserError("variable \"{}\" is {}{} and takes {} bytes, not {}.", name, to_string(variable.type),
                  values == 1 ? "" : fmt::format(" for each of {} groups of replicas", values), expected, bytes);
}

std::size_t VariableStore::host_bytes(std::string_view name) const {
  const ProgramVariable& variable = find(name);
  return num_host_values(variable, program_.replicas) * variable.type.bytes();
}

void VariableStore::write(std::string_view name, std::span<const std::byte> bytes) const {
  const ProgramVariable& variable = find(name, bytes.size());
  for (std::size_t replica = 0; replica < program_.replicas; ++replica) {
    ByteRange range{host_value_of(variable, replica, program_.replicas) * variable.type.bytes(), variable.type.bytes()};
    if (variable.sharded) range = shard_bytes(variable, replica, program_.replicas);
    for (std::size_t place = 0; place < variable.places.size(); ++place) {
      copy_bytes(address(variable, replica, place), bytes.data() + range.first, range.size);
    }
  }
}

void VariableStore::read(std::string_view name, std::span<std::byte> bytes) const {
  const ProgramVariable& variable = find(name, bytes.size());
  // From the last replica to the first: of those that share a value the first one remains.
  for (std::size_t replica = program_.replicas; replica-- > 0;) {
    ByteRange range{host_value_of(variable, replica, program_.replicas) * variable.type.bytes(), variable.type.bytes()};
    if (variable.sharded) range = shard_bytes(variable, replica, program_.replicas);
    copy_bytes(bytes.data() + range.first, address(variable, replica), range.size);
  }
}

const ProgramVariable& VariableStore::find_in_replicas(std::string_view name, std::size_t bytes) const {
  const ProgramVariable& variable = find(name);
  const std::size_t expected = program_.replicas * variable.type.bytes();
  if (!variable.sharded && expected == bytes) return variable;
  throw UserError("variable \"{}\" is {} on each of {} replicas and takes {} or {} bytes, not {}.", name,
                  to_string(variable.type), program_.replicas, host_bytes(name), expected, bytes);
}

void VariableStore::write_replicas(std::string_view name, std::span<const std::byte> bytes) const {
  const ProgramVariable& variable = find_in_replicas(name, bytes.size());
  const std::size_t size = variable.type.bytes();
  for (std::size_t replica = 0; replica < program_.replicas; ++replica) {
    for (std::size_t place = 0; place < variable.places.size(); ++place) {
      copy_bytes(address(variable, replica, place), bytes.data() + replica * size, size);
    }
  }
}

void VariableStore::read_replicas(std::string_view name, std::span<std::byte> bytes) const {
  const ProgramVariable& variable = find_in_replicas(name, bytes.size());
  const std::size_t size = variable.type.bytes();
  for (std::size_t replica = 0; replica < program_.replicas; ++replica) {
    copy_bytes(bytes.data() + replica * size, address(variable, replica), size);
  }
}

void VariableStore::reset_accumulators() const {
  for (const ProgramVariable& variable : program_.variables) {
    if (variable.kind == VariableKind::kAccumulator) fill(variable);
  }
}

void VariableStore::reconcile() const {
  for (const ProgramVariable& variable : program_.variables) {
    if (variable.sharded || variable.gathered || !is_updated(program_, variable)) continue;
    for (std::size_t replica = 0; replica < program_.replicas; ++replica) {
      std::size_t group = variable.grouping.group_of(replica, program_.replicas);
      std::size_t first = variable.grouping.members(group, program_.replicas).front();
      if (first != replica) copy_bytes(address(variable, replica), address(variable, first), variable.type.bytes());
    }
  }
  for (std::size_t replica = 0; replica < program_.replicas; ++replica) {
    for (std::size_t device = 0; device < program_.devices.size(); ++device) {
      run(plan_refresh(program_, memories_, replica, device));
    }
  }
}

}  // namespace aspen
