// Attributes of replica_slice and replica_write, by which a replica works on its own part of a tensor, and of
// replica_gather, by which it reads the parts of all.
#pragma once

#include "aspen/base/attrs.h"
#include "aspen/base/tensor_type.h"

namespace aspen {

// The elements of the tensor in memory order are cut into one shard per replica (shard_of in base/replica_grouping.h).
struct ReplicaAttrs {
  std::int64_t replicas = 1;

  void visit(AttrVisitor& v) { v("replicas", replicas); }
};

// replica_gather(shard) is the tensor of this shape whose shards the replicas keep.
struct ReplicaGatherAttrs {
  Shape shape;
  std::int64_t replicas = 1;

  void visit(AttrVisitor& v) {
    v("shape", shape);
    v("replicas", replicas);
  }
};

}  // namespace aspen
