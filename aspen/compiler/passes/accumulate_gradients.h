// Adds up each parameter's gradient over the micro-batches of an update, in a variable that the replicas then add up
// among each other.
//
//   %Gradient___w = ...     =>     variable %Accum___w accumulator                (reduced, with several replicas)
//                                  %Gradient___w = ...
//                                  %0 = add(%Accum___w, %Gradient___w)
//                                  assign(%Accum___w, %0)
//                                  %ReducedGradient___w = div(%Accum___w, G * R)  update (mean; sum: as it is)
//                                  assign(%Accum___w, zeros)                      update
//
// One micro-batch per update needs neither the add nor the zeros: the gradient is assigned as it is. The mean is over
// all R replicas, whatever the group that shares the parameter. As a running mean each contribution is divided before
// it is added: what the accumulator holds never exceeds the largest of them. Gradients add up in float32, in
// half if the optimiser says so.
//
// Sharded sums (CompileOptions::locations, accumulators) are those of all replicas: each adds its contributions to the
// shards of all, one replica after the other, so that nobody keeps a whole sum:
//
//   variable %Accum___w: f32[ceil(M / R)] accumulator sharded numel M
//   replica_add(%Accum___w, %Gradient___w)
//
// Does nothing where the update belongs to the step (see has_update_section).
// The sum is kept where the parameter is used (home_of).
// Expects: the gradients of variables are set. Ensures: they are those of the whole update, in kUpdate.
// After differentiate, which makes the gradients, and before insert_optimizer, which uses the sums.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void accumulate_gradients(Graph& graph, const PassContext& context);

// Whether updates must see whole sums: for norms over all gradients, or because it rounds at random.
bool needs_whole_sums(const CompileOptions& options);

// Whether each replica keeps one shard of the sum of a parameter's gradients over all replicas.
bool is_sharded_sum(const Variable& parameter, const CompileOptions& options);

// Whether weights are updated in kUpdate: several micro-batches, devices or replicas have a say in an update. Where
// one micro-batch on one device is all there is to it, the step updates and each gradient dies right after its use.
bool has_update_section(const Graph& graph, const CompileOptions& options);

}  // namespace aspen
