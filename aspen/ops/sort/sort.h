// Attributes of sort.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// sort(x) -> (values, i32 indices); stable; NaN is largest.
struct SortAttrs {
  std::int64_t axis = -1;
  bool descending = false;
  std::int64_t first = -1;  // how many of each line are wanted; -1: all

  std::int64_t wanted(std::int64_t size) const { return first < 0 ? size : first; }

  void visit(AttrVisitor& v) {
    v("axis", axis);
    v("descending", descending);
    v("first", first);
  }
};

}  // namespace aspen
