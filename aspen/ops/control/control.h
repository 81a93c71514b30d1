// Attributes of the ops that own graphs: loop, cond, call.
#pragma once

#include <cstdint>

#include "aspen/base/attrs.h"

namespace aspen {

// loop(carried..., sliced..., fixed...) -> (carried..., stacked...): runs the body `count` times.
//   body(carried..., slices..., fixed...) -> (carried..., parts...)
// A turn gets the carried values the turn before has returned, the first one the operands, and row `turn` of each
// sliced operand; what it returns beyond the carried values becomes row `turn` of a stacked result.
struct LoopAttrs {
  std::int64_t count = 0;
  std::int64_t carried = 0;  // operands, and as many results
  std::int64_t sliced = 0;   // operands after them
  bool reverse = false;      // turns go from count - 1 to 0
  Body body;

  void visit(AttrVisitor& v) {
    v("count", count);
    v("carried", carried);
    v("sliced", sliced);
    v("reverse", reverse);
    v("body", body);
  }
};

// cond(condition, operands...): the results of one of the bodies, both of which take all operands.
struct CondAttrs {
  Body then_body;
  Body else_body;

  void visit(AttrVisitor& v) {
    v("then_body", then_body);
    v("else_body", else_body);
  }
};

// call(operands...): the results of the body.
struct CallAttrs {
  std::int64_t stream = 0;  // of random numbers: two calls of one body draw different ones if their streams are
  Body body;

  void visit(AttrVisitor& v) {
    v("stream", stream);
    v("body", body);
  }
};

}  // namespace aspen
