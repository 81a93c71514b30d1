// Cuts a model without blocks into the stages of a pipeline, each on a device of its own.
//
//   parts     0  1  2  3  4  5  6             stage 0, 1, ... of the ops, as they were captured: a part begins where a
//             embed  block0 .. block3  head   module is called
//   stages    |--------| |-----------------|  device and stage 0, 1
//
// Where the slowest stage is fastest, as part_costs.h has it; measure_parts.h finds what parts cost. A stage begins
// with the call of a module that is called once, so that a block which begins with that module places ops as this does.
// With a memory budget, stages that are likely to be over it are avoided, if there is another way.
//
// Expects: nothing. Ensures: nothing more.
// After differentiate, which gives gradients the parts of their ops, before the optimiser, of which each device has its
// own. Nothing happens unless CompileOptions::stage_cut asks for it.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void cut_stages(Graph& graph, const PassContext& context);

}  // namespace aspen
