// Attributes of cast.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// Float to integer truncates toward zero; to bool asks != 0.
struct CastAttrs {
  DType dtype = DType::kF32;

  void visit(AttrVisitor& v) { v("dtype", dtype); }
};

}  // namespace aspen
