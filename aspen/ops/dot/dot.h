// Attributes of dot.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// dot(a, b): (batch..., M, K) x (batch..., K, N) -> (batch..., M, N), equal batch axes, rank >= 2;
// a transposed operand is stored (..., K, M) or (..., N, K). Sums in at least float32.
struct DotAttrs {
  bool transpose_a = false;
  bool transpose_b = false;

  void visit(AttrVisitor& v) {
    v("transpose_a", transpose_a);
    v("transpose_b", transpose_b);
  }
};

}  // namespace aspen
