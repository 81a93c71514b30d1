// Attributes of pooling.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// max_pool(x) -> (y, i32 flat index within the plane); avg_pool(x). x (N, C, spatial...).
struct PoolAttrs {
  std::vector<std::int64_t> kernel;
  std::vector<std::int64_t> stride;
  std::vector<std::int64_t> padding;
  std::vector<std::int64_t> dilation;  // max only
  bool ceil_mode = false;
  bool count_include_pad = true;  // average only
  std::int64_t divisor = 0;       // average only; 0: count

  void visit(AttrVisitor& v) {
    v("kernel", kernel);
    v("stride", stride);
    v("padding", padding);
    v("dilation", dilation);
    v("ceil_mode", ceil_mode);
    v("count_include_pad", count_include_pad);
    v("divisor", divisor);
  }
};

// max_pool_grad(g, index).
struct MaxPoolGradAttrs {
  std::vector<std::int64_t> shape;  // of x

  void visit(AttrVisitor& v) { v("shape", shape); }
};

// avg_pool_grad(g).
struct AvgPoolGradAttrs {
  PoolAttrs pool;
  std::vector<std::int64_t> shape;  // of x

  void visit(AttrVisitor& v) {
    pool.visit(v);
    v("shape", shape);
  }
};

// adaptive_avg_pool(x): bin i = [floor(i * in / out), ceil((i + 1) * in / out)); adaptive_avg_pool_grad(g).
struct AdaptiveAvgPoolAttrs {
  std::vector<std::int64_t> output;  // spatial extents
  std::vector<std::int64_t> shape;   // adaptive_avg_pool_grad: of x

  void visit(AttrVisitor& v) {
    v("output", output);
    v("shape", shape);
  }
};

}  // namespace aspen
