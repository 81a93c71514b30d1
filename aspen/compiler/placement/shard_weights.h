// Leaves each of R replicas one shard of the larger parameters (CompileOptions::locations, weights), which are gathered
// where they are read:
//
//   variable %w: f32[3, 5] parameter            variable %w: f32[ceil(15 / R)] parameter sharded numel 15
//   %0 = dot(%x, %w)                            %0 = replica_gather(%w) {shape=[3, 5]}
//   %1 = dot(%g, %w) backward            =>     %1 = dot(%x, %0)
//   %2 = replica_slice(%w) update               %2 = replica_gather(%w) {shape=[3, 5]} backward
//   %3, ... = sgd(%2, ...) update               %3 = dot(%g, %2) backward
//   %4 = replica_write(%w, %3) update           %4, ... = sgd(%w, ...) update
//   assign(%w, %4) update                       assign(%w, %4) update
//
// One gather per place and direction, so that the whole parameter is in memory only while it is in use. Reading the
// shards of others is safe: only updates write them, and nobody updates while anybody is in a step.
//
// Parameters that a forward pass assigns, that the host asks for while the program runs, or that an update reads whole
// stay as they are.
//
// Expects: updates of such parameters are those of insert_optimizer for sharded state. Ensures: nothing.
// After all passes that move ops between forward and backward pass; before place_variables, which sees the shards.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

// Whether replicas are to keep shards of this parameter, as far as can be told before its update exists.
bool is_sharded_weight(const Graph& graph, const Variable& parameter, const CompileOptions& options);

void shard_weights(Graph& graph, const PassContext& context);

}  // namespace aspen
