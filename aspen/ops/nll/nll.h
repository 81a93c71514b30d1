// Attributes of negative log likelihood.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// nll(log_probabilities (N, C, ...), target i32 (N, ...), weight? (C)) -> (loss, total_weight).
// nll_grad(target, weight?, total_weight, g, log_probabilities). A mean over nothing is 0.
struct NllAttrs {
  std::int64_t ignore_index = -100;
  std::string reduction = "mean";  // none, mean, sum

  void visit(AttrVisitor& v) {
    v("ignore_index", ignore_index);
    v("reduction", reduction);
  }
};

}  // namespace aspen
