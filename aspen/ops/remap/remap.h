// Attributes of remap.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// remap(x): along an axis with runs, elements of x as they list them, one run behind the other; remap_grad(g).
struct RemapAttrs {
  // Four numbers each: axis, first element, step from element to element, how many. First -1: zeros.
  std::vector<std::int64_t> runs;
  std::vector<std::int64_t> shape;  // remap_grad: of x

  void visit(AttrVisitor& v) {
    v("runs", runs);
    v("shape", shape);
  }
};

}  // namespace aspen
