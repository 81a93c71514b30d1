#include "aspen/base/replica_grouping.h"

#include <algorithm>

namespace aspen {

std::size_t ReplicaGrouping::num_groups(std::size_t replicas) const {
  switch (kind) {
    case Kind::kAll: return 1;
    case Kind::kNone: return replicas;
    case Kind::kConsecutive:
    case Kind::kOrthogonal: break;
  }
  return replicas / size;
}

std::size_t ReplicaGrouping::group_of(std::size_t replica, std::size_t replicas) const {
  switch (kind) {
    case Kind::kAll: return 0;
    case Kind::kNone: return replica;
    case Kind::kConsecutive: return replica / size;
    case Kind::kOrthogonal: break;
  }
  return replica % num_groups(replicas);
}

std::vector<std::size_t> ReplicaGrouping::members(std::size_t group, std::size_t replicas) const {
  std::vector<std::size_t> result;
  for (std::size_t replica = 0; replica < replicas; ++replica) {
    if (group_of(replica, replicas) == group) result.push_back(replica);
  }
  return result;
}

std::string_view name_of(ReplicaGrouping::Kind kind) {
  switch (kind) {
    case ReplicaGrouping::Kind::kAll: return "all";
    case ReplicaGrouping::Kind::kConsecutive: return "consecutive";
    case ReplicaGrouping::Kind::kOrthogonal: return "orthogonal";
    case ReplicaGrouping::Kind::kNone: break;
  }
  return "none";
}

bool has_size(ReplicaGrouping::Kind kind) {
  return kind == ReplicaGrouping::Kind::kConsecutive || kind == ReplicaGrouping::Kind::kOrthogonal;
}

std::int64_t shard_elements(std::int64_t numel, std::size_t replicas) {
  auto count = static_cast<std::int64_t>(replicas);
  return (numel + count - 1) / count;
}

std::pair<std::int64_t, std::int64_t> shard_of(std::int64_t numel, std::size_t replica, std::size_t replicas) {
  std::int64_t size = shard_elements(numel, replicas);
  std::int64_t first = std::min(numel, size * static_cast<std::int64_t>(replica));
  return {first, std::min(numel, first + size)};
}

}  // namespace aspen
