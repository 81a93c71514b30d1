// Attributes of dot and dot_float.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// dot(a, b): (batch..., M, K) x (batch..., K, N) -> (batch..., M, N), equal batch axes, rank >= 2;
// a transposed operand is stored (..., K, M) or (..., N, K). Sums in at least float32.
// dot_float(a, b): the same of operands in bf16, with the sums as they are, in f32.
struct DotAttrs {
  bool transpose_a = false;
  bool transpose_b = false;

  void visit(AttrVisitor& v) {
    v("transpose_a", transpose_a);
    v("transpose_b", transpose_b);
  }
};

}  // namespace aspen
