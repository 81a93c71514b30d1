// The rules every graph obeys. Run after each pass and on parsed text; a violation is an InternalError that names
// the op.
#pragma once

#include "aspen/compiler/ir/graph.h"

namespace aspen {

// Checks that
//  - ops come after the ops whose results they read, and read only values of their own section, graph inputs
//    (kStep) and variables;
//  - an op of kStep that reads a result of the backward pass belongs to it too; ops of kUpdate do not;
//  - output types are those the op's shape rule gives;
//  - the users of a value are exactly the ops that read it;
//  - a variable is assigned at most once per section;
//  - graph outputs are inputs, variables or values of kStep;
//  - the gradient of a variable is defined in the graph and has the variable's shape;
//  - tasks of kStep come first, and each lies on the device of its lane;
//  - an op's task, where it has one, is one of its section;
//  - graphs that ops own obey these rules too, have no variables, and all their ops are of kStep;
//  - a variable of which each replica keeps a shard is flat and knows the size of the whole.
void verify(const Graph& graph);

}  // namespace aspen
