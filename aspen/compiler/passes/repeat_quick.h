// Lets the backward pass compute quick pointwise values again, from what it reads anyway, rather than keep them since
// the forward pass: a write and a read of memory less, and nothing to hold in between.
//
//   %1 = add(%x, %c)                      %1 = add(%x, %c)
//   %2 = relu(%1)                         %2 = relu(%1)
//   ...                                   ...
//   %7 = mul(%g, %1)   backward    =>     %6 = add(%x, %c)   backward
//   %8 = mul(%7, %x)   backward           %7 = mul(%g, %6)   backward
//                                         %8 = mul(%7, %x)   backward
//
// The bits stay: it is the same op on the same operands. Only large tensors (CompileOptions::min_group_elements), and
// no results in half, as in group_elementwise, which then joins the copies with their users.
//
// Expects: nothing. Ensures: nothing more; may leave dead ops. After the graph is cut into tasks: a copy reads only
// what its task reads anyway.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void repeat_quick(Graph& graph, const PassContext& context);

}  // namespace aspen
