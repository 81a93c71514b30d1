// Attributes of negative log likelihood and cross entropy.
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

// cross_entropy(x (N, C, ...), target i32 (N, ...), weight? (C)) -> (loss, total_weight, top, sum): nll of log_softmax.
// cross_entropy_grad(x, target, weight?, total_weight, g, top?, sum?).
struct CrossEntropyAttrs {
  NllAttrs nll;
  double smoothing = 0;  // this share of the target belongs to all classes alike

  void visit(AttrVisitor& v) {
    nll.visit(v);
    v("smoothing", smoothing);
  }
};

}  // namespace aspen
