// How long tasks take, to choose an order, and to see which are too short for a thread of their own. Called by
// `partition` and by build_program.
#pragma once

#include <vector>

#include "aspen/compiler/ir/graph.h"

namespace aspen {

// Sets GraphTask::cost as if all stages took the same time, and going back twice that of going forward. The order for
// such stages, "one forward, one backward" on every device, is also good where they differ: on average it is shorter
// than one made for their times, which lets a slow stage run ahead and leaves the others idle at the end.
void set_costs(Graph& graph);

// On one thread of the cpu backend, a guess from shapes.
double estimate_nanoseconds(const Op& op);

// By task of the graph, likewise.
std::vector<double> estimate_nanoseconds(const Graph& graph);

}  // namespace aspen
