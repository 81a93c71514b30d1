// Adds the update of every parameter that has a gradient and belongs to a group of the optimiser.
//
//   %Gradient___w = ...     =>     variable %settings___0 setting, %Step___w and %Accl1___w optimizer_state
//                                  %Gradient___w = ...
//                                  %UpdatedVar___w, %0 = sgd(%w, %Gradient___w, %settings___0, %Step___w, %Accl1___w)
//                                  assign(%w, %UpdatedVar___w)
//                                  assign(%Accl1___w, %0)
//                                  assign(%Step___w, %Step___w + 1)
//
// Each parameter counts its own updates, where its optimiser asks for their number: state can be loaded for one alone.
//
// The update runs once per weight update, where the parameter is used: in kUpdate if the graph has such a section, else
// in the step itself, where each gradient can die right after its use. With loss scaling the seed is multiplied by the
// scale and each gradient divided by it. With a maximal norm all gradients are scaled down together: each device
// squares its own, the first device adds the squares up in the order of the parameters.
//
// With sharded optimiser state each of R replicas keeps and updates its own part of the larger parameters:
//
//   variable %w: f32[M] parameter gathered
//   variable %Accl1___w: f32[ceil(M / R)] optimizer_state sharded numel M
//   %0 = replica_slice(%w)
//   %1 = replica_slice(%ReducedGradient___w)
//   %2, %3 = sgd(%0, %1, %settings___0, %Step___w, %Accl1___w)
//   %UpdatedVar___w = replica_write(%w, %2)
//   assign(%w, %UpdatedVar___w)
//   assign(%Accl1___w, %3)
//
// Sharded weights (placement/shard_weights.h) have sharded state in any case. Parameters that are not the same on all
// replicas keep their whole state. LAMB, which needs norms of whole tensors, is done in two halves:
//
//   %0 = lamb_norms(shards of %w, %ReducedGradient___w, %settings___0, %Step___w, %Accl1___w, %Accl2___w)
//   %1 = replica_sum(%0)
//   %2, %3, %4 = lamb_step(the same, %1)
//
// Means of squares that are kept in half never fall below its least number.
//
// Expects: the gradients of variables are set, in kUpdate if there is such a section. Ensures: no gradient is left set;
// one that nothing has used is dead now.
// Before the clean-up passes: unused gradients die only afterwards.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

// UserError for an unknown kind of optimiser, and for a maximal norm over parameters that replicas do not share.
void insert_optimizer(Graph& graph, const PassContext& context);

extern const Condition kNoGradients;

}  // namespace aspen
