// Attributes of squareplus.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

struct SquareplusAttrs {
  double width = 4;  // of the bend around 0

  void visit(AttrVisitor& v) { v("width", width); }
};

}  // namespace aspen
