// Attributes of ops that draw from a distribution whose parameters are tensors.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// random_gamma(alpha), random_dirichlet(alpha), random_poisson(rate), random_binomial(count, p).
struct SampleAttrs {
  std::int64_t stream = 0;  // own to this op: the key of its numbers

  void visit(AttrVisitor& v) { v("stream", stream); }
};

// random_multinomial(weights (..., C)) -> i32 (..., num_samples).
struct MultinomialAttrs {
  std::int64_t num_samples = 1;
  bool replacement = false;  // may a class be drawn twice?
  std::int64_t stream = 0;

  void visit(AttrVisitor& v) {
    v("num_samples", num_samples);
    v("replacement", replacement);
    v("stream", stream);
  }
};

}  // namespace aspen
