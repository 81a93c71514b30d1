// Lets convolutions of few channels, and what lies between them, work on images whose batch is the last axis: there
// a vector is full however few the channels are. Values that pass between such ops stay in that order; only what comes
// from elsewhere and what goes elsewhere is turned.
//
//   %1 = conv(%x, %w)                     %t = transpose(%x) {permutation=[1, 2, 3, 0]}
//   %2 = relu(%1)                         %1 = conv_last(%t, %w)
//   %3 = conv(%2, %v)             =>      %2 = relu(%1)
//   return y: %3                          %3 = conv_last(%2, %v)
//                                         %4 = transpose(%3) {permutation=[3, 0, 1, 2]}
//                                         return y: %4
//
// Ops that follow each other in this way stay as they are unless what the convolutions would turn by themselves is
// twice what has to be turned around all of them. Sums are taken in another order: what is turned follows from the ops
// and their shapes, never from the placement.
//
// Expects: nothing. Ensures: nothing more; leaves reshapes and transposes to canonicalise. Before the graph is cut into
// tasks, and before recompute, so that every copy of an op is turned alike.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void put_batch_last(Graph& graph, const PassContext& context);

}  // namespace aspen
