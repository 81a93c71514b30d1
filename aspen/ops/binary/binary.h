// Attributes of elementwise ops of two inputs.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

struct HuberAttrs {
  double delta = 1;  // where the parabola goes over into straight lines
  double slope = 1;  // of these

  void visit(AttrVisitor& v) {
    v("delta", delta);
    v("slope", slope);
  }
};

}  // namespace aspen
