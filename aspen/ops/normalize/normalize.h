// Attributes of normalize.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// normalize(x) -> (y = (x - mean) * rstd, mean, rstd); mean and rstd have the shape of x with axes of size 1
// and are float32 for half inputs. normalize_grad(y, rstd, g).
struct NormalizeAttrs {
  std::vector<std::int64_t> axes;  // sorted, not negative
  double epsilon = 1e-5;

  void visit(AttrVisitor& v) {
    v("axes", axes);
    v("epsilon", epsilon);
  }
};

}  // namespace aspen
