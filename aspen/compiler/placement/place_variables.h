// Marks the variables that are kept off the devices, as the options ask.
//
//   variable %Accl1___w: f32[512, 512] optimizer_state     =>     ... off_device
//
// Weights, optimiser state and accumulators each have their own option; tensors below its minimum stay, and so do
// single numbers.
//
// Expects: nothing. Ensures: nothing more.
// After insert_optimizer has made all variables, before insert_transfers, which loads them where they are read.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void place_variables(Graph& graph, const PassContext& context);

}  // namespace aspen
