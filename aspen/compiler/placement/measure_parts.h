// What the parts of a model cost on this machine. Asked by cut_stages.
//
// A copy of the graph is compiled for one device, down to the kernels, so that ops are fused as they will be; each
// different kernel is run a few times on memory of its own. Ops that must not run for a trial (host calls, prints), and
// those for which time does not suffice, are guessed from their shapes, in proportion to what was measured.
#pragma once

#include "aspen/compiler/passes/pass.h"
#include "aspen/compiler/placement/part_costs.h"

namespace aspen {

// Placement::stage of each op is its part.
PartCosts measure_parts(const Graph& graph, const PassContext& context);

}  // namespace aspen
