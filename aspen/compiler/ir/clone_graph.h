// A copy of a whole graph, to try passes on: what becomes of it leaves the original as it is. Bodies of loops and
// branches are shared, as they never change.
#pragma once

#include <memory>

#include "aspen/compiler/ir/graph.h"

namespace aspen {

std::unique_ptr<Graph> clone_graph(const Graph& graph);

}  // namespace aspen
