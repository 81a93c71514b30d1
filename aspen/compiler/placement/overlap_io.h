// Lets inputs and outputs of the graph that are marked as overlapped travel while the devices compute, with the help of
// two more devices that compute nothing: one brings inputs, one takes outputs.
//
//   graph @main(%x overlapped)         %0 = send(%x) {lane=2}    task 0 "inputs", device 1: into a slot of device 0
//   %0 = exp(%x)    task 0       =>    %1 = exp(%0)              task 1, device 0
//   return y: %0 overlapped            %2 = send(%1) {lane=3}    task 1
//                                      return y: %2              leaves with task 2 "outputs", device 2
//
// Lanes of their own, with slots for several micro-batches, receive the inputs on each device that uses them
// (CompileOptions::prefetch_depth) and the outputs. The lanes that hold everything else stay as deep as they were, so
// that devices which took turns still do.
//
// Expects: transfers complete. Ensures: partitioned; an overlapped input is read through `send` alone.
// After insert_transfers, which would bring in no value from a lane without tasks; before schedule.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

// UserError if the prefetch depth is negative.
void overlap_io(Graph& graph, const PassContext& context);

// A `send` of an input of the graph: no op to run, but a copy that the executor makes from the host into a slot.
bool is_arrival(const Op& op);

// The task in which a result of `op` is taken as an output of the graph: the one that makes it; of a `send`, the first
// from there on in the lane it goes to.
std::int64_t task_after_send(const Graph& graph, const Op& op);

}  // namespace aspen
