// Attributes of the ops that adjust the loss scaling to the gradients of a model.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// gradient_statistics(g): f32[2], how many elements of g are larger than `edge` (or not a number), and how many are
// not finite.
struct GradientStatisticsAttrs {
  double edge = 0;

  void visit(AttrVisitor& v) { v("edge", edge); }
};

// loss_scale_update(factor, scaling, large, updates): the factor of the next update. It is halved if more than
// `threshold` of the gradients' `total` elements are large, and doubled otherwise, within the bounds of scaling *
// factor. `updates` counts the updates before this one: only every `period`-th changes the factor.
struct LossScaleUpdateAttrs {
  double total = 1;
  double threshold = 0;
  double largest = 0, least = 0;  // of scaling * factor
  std::int64_t period = 1;

  void visit(AttrVisitor& v) {
    v("total", total);
    v("threshold", threshold);
    v("largest", largest);
    v("least", least);
    v("period", period);
  }
};

}  // namespace aspen
