// Attributes of convolutions.
#pragma once

#include <limits>

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

// conv_affine(x, w, bias?, scale?, shift?, other?): the convolution * scale + shift + other, held between bounds.
struct ConvAffineAttrs {
  ConvAttrs conv;
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();

  void visit(AttrVisitor& v) {
    conv.visit(v);
    v("low", low);
    v("high", high);
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
