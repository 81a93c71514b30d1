// Attributes of print, the marker with something to say. detach, nop, checkpoint, loss and assign have none.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// print(x): x, written to standard error under `title` each time the op runs.
struct PrintAttrs {
  std::string title;
  bool print_gradient = true;               // the backward pass prints the gradient as title + "_gradient"
  std::int64_t summarise_threshold = 1000;  // more elements than this show only the edges; 0: never
  std::int64_t edge_items = 3;
  std::int64_t max_line_width = 80;   // 0: rows are never split
  std::int64_t digits = 4;            // 0: elements are not aligned
  std::string float_format = "auto";  // auto, fixed, scientific, none
  std::string separator = ", ";
  std::string open_bracket = "(";
  std::string close_bracket = ")";

  void visit(AttrVisitor& v) {
    v("title", title);
    v("print_gradient", print_gradient);
    v("summarise_threshold", summarise_threshold);
    v("edge_items", edge_items);
    v("max_line_width", max_line_width);
    v("digits", digits);
    v("float_format", float_format);
    v("separator", separator);
    v("open_bracket", open_bracket);
    v("close_bracket", close_bracket);
  }
};

}  // namespace aspen
