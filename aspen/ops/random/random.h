// Attributes of random ops.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// random_uniform: [0, 1); random_normal: mean 0, deviation 1.
struct RandomAttrs {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::int64_t stream = 0;  // own to this op: the key of its numbers

  void visit(AttrVisitor& v) {
    v("dtype", dtype);
    v("shape", shape);
    v("stream", stream);
  }
};

// dropout(x): x * mask / (1 - p), the mask drawn from the stream; it is its own gradient.
struct DropoutAttrs {
  double p = 0.5;  // probability of zero
  std::int64_t stream = 0;

  void visit(AttrVisitor& v) {
    v("p", p);
    v("stream", stream);
  }
};

// random_permutation: the numbers 0 to size - 1 in random order.
struct RandomPermutationAttrs {
  std::int64_t size = 0;
  std::int64_t stream = 0;

  void visit(AttrVisitor& v) {
    v("size", size);
    v("stream", stream);
  }
};

// round_at_random(x): half, up or down at random.
struct RoundAtRandomAttrs {
  std::int64_t stream = 0;
  // By replica: each has numbers of its own, all have the same, or each is a shard of one long tensor.
  enum Draws : std::int64_t { kPerReplica, kShared, kPerShard };
  std::int64_t draws = kPerReplica;

  void visit(AttrVisitor& v) {
    v("stream", stream);
    v("draws", draws);
  }
};

}  // namespace aspen
