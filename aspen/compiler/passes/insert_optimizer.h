// Adds the update of every parameter that has a gradient and belongs to a group of the optimiser.
//
//   %Gradient___w = ...     =>     variable %settings___0 setting, %Step___ and %Accl1___w optimizer_state
//                                  %Gradient___w = ...
//                                  %UpdatedVar___w, %0 = sgd(%w, %Gradient___w, %settings___0, %Step___, %Accl1___w)
//                                  assign(%w, %UpdatedVar___w)
//                                  assign(%Accl1___w, %0)
//
// The update runs once per weight update: in kUpdate with gradient accumulation, else in the step itself, where each
// gradient can die right after its use. With loss scaling the seed is multiplied by the scale and each gradient
// divided by it; with a maximal norm all gradients are scaled down together.
//
// Expects: gradients are named ReducedGradient___<parameter> with accumulation, else Gradient___<parameter>.
// Ensures: nothing more.
// Before the clean-up passes: unused gradients die only afterwards.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

// UserError for an unknown kind of optimiser.
void insert_optimizer(Graph& graph, const PassContext& context);

}  // namespace aspen
