// Attributes of the op group.
#pragma once

#include <cstdint>

#include "aspen/base/attrs.h"

namespace aspen {

// group(operands...) -> (results...): the results of the body, whose ops work element by element on one shape.
struct GroupAttrs {
  std::int64_t carried = 0;  // result k may take the place of operand k, for so many k
  Body body;

  void visit(AttrVisitor& v) {
    v("carried", carried);
    v("body", body);
  }
};

}  // namespace aspen
