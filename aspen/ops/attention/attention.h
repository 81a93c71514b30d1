// Attributes of attention.
#pragma once

#include <limits>

#include "aspen/base/attrs.h"

namespace aspen {

// attention(q, k, v, mask) -> (y, top, sum): q (B, S, H, D), k (B, T, H, D), v (B, T, H, E) and mask (M, G, S or 1, T),
// where M divides B and G divides H: as many samples, and heads, in a row share one of its matrices.
// attention_grad(q, k, v, top, sum, g, mask) -> (dq, dk, dv).
struct AttentionAttrs {
  double scale = 1;                                        // of the products of q and k
  double fill = -std::numeric_limits<double>::infinity();  // a score where a mask of bool is true

  void visit(AttrVisitor& v) {
    v("scale", scale);
    v("fill", fill);
  }
};

}  // namespace aspen
