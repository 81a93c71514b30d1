// Copies of ops in other tasks. Shared by the passes of this folder.
#pragma once

#include "aspen/compiler/ir/graph.h"

namespace aspen {

// The same op once more, with the same inputs, right before `before`. Results have no names.
Op* clone_op(Graph& graph, const Op& op, Op* before);

// Lets `op` read `to` wherever it reads `from`.
void redirect(Op& op, const Value* from, Value* to);

}  // namespace aspen
