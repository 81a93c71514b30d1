// Attributes of replica_slice and replica_write, by which a replica works on its own part of a tensor.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// The elements of the tensor in memory order are cut into one shard per replica (shard_of in base/replica_grouping.h).
struct ReplicaAttrs {
  std::int64_t replicas = 1;

  void visit(AttrVisitor& v) { v("replicas", replicas); }
};

}  // namespace aspen
