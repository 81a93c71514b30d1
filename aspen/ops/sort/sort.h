// Attributes of sort.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// sort(x) -> (values, i32 indices); stable; NaN is largest.
struct SortAttrs {
  std::int64_t axis = -1;
  bool descending = false;

  void visit(AttrVisitor& v) {
    v("axis", axis);
    v("descending", descending);
  }
};

}  // namespace aspen
