// Simplifies the graphs that ops own, by the passes that simplify the whole one, and takes away from loops, branches
// and calls the operands and results that nobody needs.
//
//   %h, %a, %b = loop(%h0, %x, %y) {body uses h and x, returns ...}
//     =>                                                                   where nobody uses %b
//   %h, %a = loop(%h0, %x) {body returns h and a}
//
// A value that a loop carries for nobody but itself goes as well. Equal results become one, and so do operands.
//
// Expects: nothing. Ensures: nothing dead and no marker in any body. After the graph itself has been simplified, so
// that results are unused that will be; before the last remove_dead, which drops what operands were made for.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void simplify_bodies(Graph& graph, const PassContext& context);

extern const Condition kBodiesSimplified;

}  // namespace aspen
