// The variables of a loaded program in the memory of all its replicas, as the host sees them: one value, or one per
// group of replicas. Used by the executor between runs.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "aspen/runtime/program.h"
#include "aspen/runtime/replica_memory.h"

namespace aspen {

class VariableStore {
 public:
  // Fills every variable with its initial value.
  VariableStore(const Program& program, const std::vector<ReplicaMemory>& memories);

  // UserError for a name the program does not have, or a wrong number of bytes.
  std::size_t host_bytes(std::string_view name) const;
  void write(std::string_view name, std::span<const std::byte> bytes) const;
  void read(std::string_view name, std::span<std::byte> bytes) const;
  // Not as the host sees it: what every replica holds, one after the other. Not of sharded variables.
  void write_replicas(std::string_view name, std::span<const std::byte> bytes) const;
  void read_replicas(std::string_view name, std::span<std::byte> bytes) const;

  // Forgets the micro-batches of an update that will not happen.
  void reset_accumulators() const;
  // After an update that only some devices finished: makes replicas and copies hold the same again, namely what the
  // first replica of each group has at the variable's home.
  void reconcile() const;

 private:
  const ProgramVariable& find(std::string_view name) const;
  const ProgramVariable& find(std::string_view name, std::size_t bytes) const;
  const ProgramVariable& find_in_replicas(std::string_view name, std::size_t bytes) const;
  void check(const ProgramVariable& variable) const;
  void fill(const ProgramVariable& variable) const;
  std::byte* address(const ProgramVariable& variable, std::size_t replica, std::size_t place = 0) const;

  const Program& program_;
  const std::vector<ReplicaMemory>& memories_;
  std::map<std::string, const ProgramVariable*, std::less<>> by_name_;
};

}  // namespace aspen
