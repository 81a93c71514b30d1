// POPTORCH_EXPORT_PROTO_FILE: the graph of the latest compilation, for those who want to look at it.
#pragma once

#include "aspen/compiler/ir/graph.h"

namespace poptorch {

// Writes the graph as text where the environment says; nothing if it does not. Folders are made as needed.
void export_graph(const aspen::Graph& graph);
// The variable of the environment that wants to see graphs, so that they must be compiled; nullptr: none.
const char* asks_for_graph();

}  // namespace poptorch
