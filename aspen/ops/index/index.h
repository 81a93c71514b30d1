// Attributes of ops that pick elements by computed positions.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// How scatter combines an update with what is there.
inline constexpr const char* kScatterModes[] = {"set", "add", "mul", "max", "min"};

// take(x, index): whole rows along axis; shape = x.shape[:axis] + index.shape + x.shape[axis+1:].
struct TakeAttrs {
  std::int64_t axis = 0;

  void visit(AttrVisitor& v) { v("axis", axis); }
};

// gather(x, index): element-wise as torch.gather; shape of index.
struct GatherAttrs {
  std::int64_t axis = 0;

  void visit(AttrVisitor& v) { v("axis", axis); }
};

// scatter(x, index, update): element-wise as torch.scatter; index and update have equal shapes.
// scatter_rows(x, index, update): the inverse of take; update has the shape take would give.
// With duplicates, set keeps the last writer in row-major order; add and the rest combine in that order.
struct ScatterAttrs {
  std::int64_t axis = 0;
  std::string mode = "set";  // one of kScatterModes

  void visit(AttrVisitor& v) {
    v("axis", axis);
    v("mode", mode);
  }
};

// sum_rows(x, from, to): y[to[k]] += x[from[k]] in the order of k; rows that nothing is added to are zero.
struct SumRowsAttrs {
  std::int64_t rows = 0;  // of y

  void visit(AttrVisitor& v) { v("rows", rows); }
};

// wrap_index(index): i -> i < 0 ? i + size : i; anything outside [-size, size) is an error naming it.
struct WrapIndexAttrs {
  std::int64_t size = 0;

  void visit(AttrVisitor& v) { v("size", size); }
};

// check_range(x): x itself; an element outside [low, high] is an error. The front end puts it before an op that would
// read past its operand, or quietly give a number, and says in the user's words what is counted.
struct CheckRangeAttrs {
  std::int64_t low = 0, high = 0;
  std::string who;   // the user's op: "one_hot"
  std::string what;  // what an element is: "class"
  std::string size;  // what it must fit: "3 classes"

  void visit(AttrVisitor& v) {
    v("low", low);
    v("high", high);
    v("who", who);
    v("what", what);
    v("size", size);
  }
};

// searchsorted(sorted, values): position among the last axis of sorted; i32.
struct SearchsortedAttrs {
  bool right = false;

  void visit(AttrVisitor& v) { v("right", right); }
};

}  // namespace aspen
