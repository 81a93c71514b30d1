// Lets a weight be updated while its gradient is made, which then need not be kept: of a linear layer, and of the table
// of an embedding.
//
//   %1 = dot(%g, %x) {transpose_a=true}
//   %2, %3 = sgd(%w, %1, %settings, %step, %v)             =>     %4, %5 = dot_sgd(%w, %g, %x, %settings, %step, %v)
//
//   %1 = scatter_rows(0, %index, %g) {mode="add"}
//   %2, %3 = sgd(%w, %1, %settings, %step, %v)             =>     %4, %5 = rows_sgd(%w, %index, %g, %settings, %step,
//   %v)
//
// The same for adam. The bits stay. Float32 only, and gradients that nothing else reads: not those that are added up
// over micro-batches or replicas, clipped, unscaled or shown to the host. Not those of small weights, which stay in the
// cache anyway, nor products of many summands, beside which an update takes no time (docs/design/019). Not where there
// is half, whose overflows are looked for on the way to a weight, nor where floating-point exceptions are.
//
// Expects: nothing. Ensures: nothing more. After the graph is cut into tasks: what it joins belongs to one task.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void fuse_updates(Graph& graph, const PassContext& context);

}  // namespace aspen
