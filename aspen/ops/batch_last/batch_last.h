// Attributes of convolutions and poolings of images that lie batch last: (C, H, W, N).
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// conv_last(x, w, bias?) -> y: x (C, H, W, N), w (O, C, KH, KW), y (O, OH, OW, N). One group, every pixel.
struct ConvLastAttrs {
  std::vector<std::int64_t> padding;  // both sides
  std::vector<std::int64_t> dilation;
  bool relu = false;  // of the result

  void visit(AttrVisitor& v) {
    v("padding", padding);
    v("dilation", dilation);
    v("relu", relu);
  }
};

// conv_last_pool(x, w, bias?) -> (y, place): the largest of each window of the convolution's result. Windows touch each
// other and need no padding; what is left over at the far edges belongs to none.
struct ConvLastPoolAttrs {
  ConvLastAttrs conv;
  std::vector<std::int64_t> window;

  void visit(AttrVisitor& v) {
    conv.visit(v);
    v("window", window);
  }
};

// conv_last_input_grad(g, w) -> dx, conv_last_weight_grad(x, g) -> (dw, db); relu stays false.
struct ConvLastGradAttrs {
  ConvLastAttrs conv;
  std::vector<std::int64_t> shape;  // of dx or dw

  void visit(AttrVisitor& v) {
    conv.visit(v);
    v("shape", shape);
  }
};

// conv_last_pool_weight_grad(x, g, place) -> (dw, db); relu stays false.
struct ConvLastPoolGradAttrs {
  ConvLastPoolAttrs pool;
  std::vector<std::int64_t> shape;  // of dw

  void visit(AttrVisitor& v) {
    pool.visit(v);
    v("shape", shape);
  }
};

// max_pool_last(x) -> (y, place).
struct MaxPoolLastAttrs {
  std::vector<std::int64_t> window;

  void visit(AttrVisitor& v) { v("window", window); }
};

// max_pool_last_grad(g, place) -> dx.
struct MaxPoolLastGradAttrs {
  std::vector<std::int64_t> window;
  std::vector<std::int64_t> shape;  // of x

  void visit(AttrVisitor& v) {
    v("window", window);
    v("shape", shape);
  }
};

}  // namespace aspen
