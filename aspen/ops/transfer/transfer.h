// Attributes of the ops that move a value to where it is needed; see compiler/placement/insert_transfers.h.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// send(x): x, in a slot of lane `lane` of the program. The only way from device to device.
struct SendAttrs {
  std::int64_t lane = 0;

  void visit(AttrVisitor& v) { v("lane", lane); }
};

// store(x): x, in a slot of the lane that is kept off the device; only `load` may read it.
struct StoreAttrs {
  std::int64_t lane = 0;

  void visit(AttrVisitor& v) { v("lane", lane); }
};

}  // namespace aspen
