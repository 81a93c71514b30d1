// How replicas form groups: who shares a weight, who reads the same input. Used by the program and the executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace aspen {

struct ReplicaGrouping {
  enum class Kind : std::uint8_t {
    kAll,          // one group of all replicas
    kConsecutive,  // {0 .. size-1}, {size .. 2*size-1}, ...
    kOrthogonal,   // with m = replicas / size: {0, m, 2m, ...}, {1, m+1, ...}, ...
    kNone,         // each replica on its own
  };
  Kind kind = Kind::kAll;
  std::size_t size = 1;      // replicas per group, for kConsecutive and kOrthogonal
  bool returns_all = false;  // the host sees one value per replica instead of one per group
  bool operator==(const ReplicaGrouping&) const = default;

  std::size_t num_groups(std::size_t replicas) const;
  std::size_t group_of(std::size_t replica, std::size_t replicas) const;
  std::vector<std::size_t> members(std::size_t group, std::size_t replicas) const;  // ascending
};

std::string_view name_of(ReplicaGrouping::Kind kind);  // "consecutive"
bool has_size(ReplicaGrouping::Kind kind);             // whether `size` means something

// Elements [first, second) of a tensor of `numel` elements that a replica keeps when the tensor is sharded. All shards
// but the last non-empty one have shard_elements(numel, replicas).
std::int64_t shard_elements(std::int64_t numel, std::size_t replicas);
std::pair<std::int64_t, std::int64_t> shard_of(std::int64_t numel, std::size_t replica, std::size_t replicas);

}  // namespace aspen
