// Attributes of ops that move elements.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

struct ReshapeAttrs {
  std::vector<std::int64_t> shape;

  void visit(AttrVisitor& v) { v("shape", shape); }
};

struct TransposeAttrs {
  std::vector<std::int64_t> permutation;  // output axis i is input axis permutation[i]

  void visit(AttrVisitor& v) { v("permutation", permutation); }
};

struct BroadcastAttrs {
  std::vector<std::int64_t> shape;  // numpy rules; leading axes may be added

  void visit(AttrVisitor& v) { v("shape", shape); }
};

// slice(x), slice_update(x, update): one entry per axis; slice_update writes update at those places of x.
struct SliceAttrs {
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> ends;   // exclusive, 0 <= start <= end <= size
  std::vector<std::int64_t> steps;  // >= 1

  void visit(AttrVisitor& v) {
    v("starts", starts);
    v("ends", ends);
    v("steps", steps);
  }
};

struct PadAttrs {
  std::vector<std::int64_t> low;       // negative crops
  std::vector<std::int64_t> high;      // negative crops
  std::vector<std::int64_t> interior;  // elements put between neighbours
  double value = 0;

  void visit(AttrVisitor& v) {
    v("low", low);
    v("high", high);
    v("interior", interior);
    v("value", value);
  }
};

struct ConcatAttrs {
  std::int64_t axis = 0;

  void visit(AttrVisitor& v) { v("axis", axis); }
};

struct ReverseAttrs {
  std::vector<std::int64_t> axes;

  void visit(AttrVisitor& v) { v("axes", axes); }
};

}  // namespace aspen
