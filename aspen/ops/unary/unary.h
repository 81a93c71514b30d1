// Attributes of elementwise ops of one input.
#pragma once

#include <limits>

#include "aspen/base/attrs.h"

namespace aspen {

struct GeluAttrs {
  bool tanh = false;  // the tanh approximation instead of erf

  void visit(AttrVisitor& v) { v("tanh", tanh); }
};

struct SoftplusAttrs {
  double beta = 1;
  double threshold = 20;  // linear where x * beta exceeds it

  void visit(AttrVisitor& v) {
    v("beta", beta);
    v("threshold", threshold);
  }
};

struct LeakyReluAttrs {
  double slope = 0.01;  // of what is not positive

  void visit(AttrVisitor& v) { v("slope", slope); }
};

struct ClampAttrs {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool open = false;  // no gradient on the bounds, which a NaN lets through

  void visit(AttrVisitor& v) {
    v("low", low);
    v("high", high);
    v("open", open);
  }
};

}  // namespace aspen
