// Attributes of softmax and its relatives.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// softmax(x), log_softmax(x); softmax_grad(y, g), log_softmax_grad(y, g).
struct SoftmaxAttrs {
  std::int64_t axis = -1;

  void visit(AttrVisitor& v) { v("axis", axis); }
};

}  // namespace aspen
