// Cuts the graph into tasks: the parts that one device runs in one go.
//
//   device 0 stage 0            forward of stage 0            lane 0
//   device 1 stage 1      =>    stage 1 (there and back)      lane 1
//   the gradients of both       backward of stage 0           lane 0
//   the optimiser               update on device 0, 1         lanes 2, 3
//
// Pipelined: a task per stage and direction, one for both in the last stage; consecutive stages on one device count as
// one; a lane per stage. Sharded: everything that can run on a device, then the next device; a lane per device. Phased:
// the same within each phase, one phase after the other and back. One device: one task. The update section has a task
// per device, more where devices need results of each other, and lanes of its own.
//
// Gradients that read something made in a later task than their own move there. Sources, and aliases of sources, inputs
// and variables, are made again in every task that uses them.
//
// Expects: nothing. Ensures: every op has a task on its device, and values flow to the same or to later tasks.
// After all passes that add or remove work, before insert_transfers, which adds only what moves values.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

// UserError where the placement cannot run: data that flows from a later to an earlier stage or phase, a stage on two
// devices, too few micro-batches for the pipeline, a variable assigned in the forward pass and used elsewhere.
void partition(Graph& graph, const PassContext& context);

extern const Condition kPartitioned;

}  // namespace aspen
