// Attributes of cast and narrow.
#pragma once

#include <string>

#include "aspen/base/attrs.h"

namespace aspen {

// Float to integer truncates toward zero; to bool asks != 0.
struct CastAttrs {
  DType dtype = DType::kF32;

  void visit(AttrVisitor& v) { v("dtype", dtype); }
};

struct NarrowAttrs {
  std::string input;  // of the graph, for the message

  void visit(AttrVisitor& v) { v("input", input); }
};

}  // namespace aspen
