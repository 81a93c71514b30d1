// Rules on variables that are written while micro-batches run. Called by `partition`, last.
#pragma once

#include "aspen/compiler/ir/graph.h"

namespace aspen {

// A variable assigned in the step section has one home, and its readers must see what the micro-batch before left
// there: they belong to the lane of the assign. A UserError names the variable and both places.
void check_variables(const Graph& graph);

}  // namespace aspen
