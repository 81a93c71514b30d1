// With gradient accumulation, adds up each parameter's gradient over the micro-batches of an update.
//
//   %Gradient___w = ...     =>     variable %Accum___w accumulator
//                                  %Gradient___w = ...
//                                  %0 = add(%Accum___w, %Gradient___w)
//                                  assign(%Accum___w, %0)
//                                  %ReducedGradient___w = div(%Accum___w, G)      update (mean; sum: as it is)
//                                  assign(%Accum___w, zeros)                      update
//
// Half gradients add up in float32. Does nothing when an update has one micro-batch.
// Expects: gradients are named Gradient___<parameter>. Ensures: nothing more.
// After differentiate, which makes the gradients, and before insert_optimizer, which uses the sums.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void accumulate_gradients(Graph& graph, const PassContext& context);

}  // namespace aspen
