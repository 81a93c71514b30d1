// Attributes of addcmul.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

struct AddcmulAttrs {
  double scale = 1;  // of the product

  void visit(AttrVisitor& v) { v("scale", scale); }
};

}  // namespace aspen
