// Lets what a phase loads travel while the task before it computes, with the help of one more device that computes
// nothing. In phased execution with Liveness::kOffDeviceAfterForward; nothing to do otherwise.
//
//   %1 = load(%w)      task 0 "forward of phase 0"          %1 = send(%w) {lane=3}   task 0 "loads of forward of ..."
//   %2 = mul(%x, %1)   task 0                        =>     %2 = mul(%x, %1)         task 1 "forward of phase 0"
//   %3 = load(%v)      task 1 "forward of phase 1"          %3 = send(%v) {lane=4}   task 2 "loads of forward of ..."
//   %4 = mul(%2, %3)   task 1                               %4 = mul(%2, %3)         task 3 "forward of phase 1"
//
// Two lanes per device receive in turn: while a task reads what is in the one, the loads of the device's next task fill
// the other (task 2 above runs beside task 1). That is the price: what the task and the next one load is on the device
// at once, where kOffDeviceAfterForwardNoOverlap loads each value right before its use.
//
// What a task loads although it has stored it itself stays where it is. Loads of the update section do, too.
//
// Expects: partitioned. Ensures: partitioned; `send` of a task that only moves is the copy from outside the device.
// After overlap_io, which expects loads where insert_transfers has put them; before schedule.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void overlap_loads(Graph& graph, const PassContext& context);

}  // namespace aspen
