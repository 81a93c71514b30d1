// Attributes of reductions and scans.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// reduce_sum, reduce_prod, reduce_max, reduce_min.
struct ReduceAttrs {
  std::vector<std::int64_t> axes;  // sorted, unique, not negative; empty: none, the input is copied
  bool keep_axes = false;

  void visit(AttrVisitor& v) {
    v("axes", axes);
    v("keep_axes", keep_axes);
  }
};

// argreduce(x): i32 index of the first largest or smallest element; NaN wins.
struct ArgReduceAttrs {
  std::int64_t axis = 0;
  bool max = true;  // else min
  bool keep_axis = false;

  void visit(AttrVisitor& v) {
    v("axis", axis);
    v("max", max);
    v("keep_axis", keep_axis);
  }
};

// cumsum, cumprod (cumprod: reverse and exclusive stay false).
struct ScanAttrs {
  std::int64_t axis = 0;
  bool reverse = false;
  bool exclusive = false;

  void visit(AttrVisitor& v) {
    v("axis", axis);
    v("reverse", reverse);
    v("exclusive", exclusive);
  }
};

}  // namespace aspen
