// Makes the step tasks of devices that take turns: sharded and phased execution. Called by partition.
#pragma once

#include "aspen/compiler/compile.h"

namespace aspen {

// Everything that can run on a device, then the next device that has work, as often as the data asks for it. A lane per
// device.
//
// Sharded: the whole forward pass comes first; what the backward pass computes again is there to be computed late.
// Phased: one phase after the other, then the same backwards, beginning with the last phase, which goes there and back
// unless CompileOptions::separate_backward_phase. Within a phase data may go from device to device and back. A gradient
// that reads something made in a later phase than its own runs there.
//
// Impure ops of a phase keep their order. UserError where a forward op reads a result of a later phase.
void make_turn_tasks(Graph& graph, const CompileOptions& options);

}  // namespace aspen
