// Attributes of convolutions.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// conv(x, w, bias?): x (N, C, spatial...), w (O, C / groups, kernel...), one to three spatial axes.
struct ConvAttrs {
  std::vector<std::int64_t> stride;
  std::vector<std::int64_t> padding;  // both sides
  std::vector<std::int64_t> dilation;
  std::int64_t groups = 1;

  void visit(AttrVisitor& v) {
    v("stride", stride);
    v("padding", padding);
    v("dilation", dilation);
    v("groups", groups);
  }
};

// conv_input_grad(g, w): gradient of conv by x, and the forward pass of a transposed convolution.
// conv_weight_grad(x, g): gradient of conv by w.
struct ConvGradAttrs {
  ConvAttrs conv;
  std::vector<std::int64_t> shape;  // of the result

  void visit(AttrVisitor& v) {
    conv.visit(v);
    v("shape", shape);
  }
};

}  // namespace aspen
