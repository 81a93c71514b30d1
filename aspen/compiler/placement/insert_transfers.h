// Inserts the ops that bring values to the tasks that read them, in which `partition` has cut the graph.
//
//   %1 = exp(%x)    task 0, lane 0             %1 = exp(%x)              task 0
//                                       =>     %2 = send(%1) {lane=1}    task 0
//   %2 = neg(%1)    task 1, lane 1             %3 = neg(%2)              task 1
//
// `send` puts a value into a slot of the reader's lane, once for all readers there. It also keeps the old contents of a
// variable for tasks that read it after another one has assigned it. `store` puts a value into a slot off the device,
// `load` fetches it, or a variable that is kept off the device. Of values that live long, those leave the device that
// CompileOptions::locations (activations) or ::liveness (phased execution) name; of a task that holds both, the
// backward pass loads what the forward pass has stored or loaded once more, so that nothing waits in between.
// An alias does not travel: the reader's task makes it again from what it is an alias of.
//
// Expects: partitioned. Ensures: each op reads only what is in its own lane (kTransfersComplete).
// Right after partition. Before schedule, which puts sends and stores early and loads late.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void insert_transfers(Graph& graph, const PassContext& context);

// Every input of an op in task b is made in b, made in another task of b's lane, sent or stored into that lane, a graph
// input or a variable. Stored values and variables off the device are read by `load` alone. No task reads a variable
// after another one has written it.
extern const Condition kTransfersComplete;

}  // namespace aspen
