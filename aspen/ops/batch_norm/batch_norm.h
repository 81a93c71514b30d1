// Attributes of batch_norm, batch_norm_bounded and batch_norm_grad.
#pragma once

#include <limits>

#include "aspen/base/attrs.h"

namespace aspen {

// batch_norm(x, scale, shift) -> (y, mean, rstd). x: (N, C, ...); what belongs to a channel is (1, C, 1, ...).
struct BatchNormAttrs {
  double epsilon = 1e-5;

  void visit(AttrVisitor& v) { v("epsilon", epsilon); }
};

// batch_norm_bounded(x, scale, shift, other) and batch_norm_grad(x, scale, shift, mean, rstd, g), which makes the mask
// of the bounds itself. Bounds as in clamp; both are infinite where nothing is cut off.
struct BoundedBatchNormAttrs {
  BatchNormAttrs norm;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool open = false;  // no gradient on finite bounds, which a NaN lets through

  void visit(AttrVisitor& v) {
    norm.visit(v);
    v("low", low);
    v("high", high);
    v("open", open);
  }
};

}  // namespace aspen
