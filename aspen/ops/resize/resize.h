// Attributes of resize.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// resize(x), resize_grad(g): separable interpolation of the axes after the first two.
struct ResizeAttrs {
  std::string mode = "nearest";    // nearest, nearest_exact, linear, cubic
  std::vector<std::int64_t> size;  // spatial extents of the output
  std::vector<double> scales;      // source step per output step, per axis
  bool align_corners = false;
  std::vector<std::int64_t> shape;  // resize_grad: of x

  void visit(AttrVisitor& v) {
    v("mode", mode);
    v("size", size);
    v("scales", scales);
    v("align_corners", align_corners);
    v("shape", shape);
  }
};

}  // namespace aspen
