// How long tasks take in relation to each other: a guess from shapes, good enough to choose an order. Called by
// `partition`.
#pragma once

#include "aspen/compiler/ir/graph.h"

namespace aspen {

// Sets GraphTask::cost; the cheapest task of a section costs 1.
void estimate_costs(Graph& graph);

}  // namespace aspen
