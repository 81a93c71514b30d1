// How long tasks take: a guess from shapes, good enough to choose an order and to see which are too short for a thread
// of their own. Called by `partition` and by build_program.
#pragma once

#include <vector>

#include "aspen/compiler/ir/graph.h"

namespace aspen {

// Sets GraphTask::cost; the cheapest task of a section costs 1.
void estimate_costs(Graph& graph);

// On one thread of the cpu backend.
double estimate_nanoseconds(const Op& op);

// By task of the graph: nanoseconds on one thread of the cpu backend.
std::vector<double> estimate_nanoseconds(const Graph& graph);

}  // namespace aspen
