// Puts the parts of a tensor side by side instead of adding them up, each padded with zeros to the size of the whole.
//
//   %1 = pad(%a) {low=[0], high=[2]}
//   %2 = pad(%b) {low=[3], high=[0]}     =>     %1 = concat(%a, %b)
//   %3 = add(%1, %2)
//
// This is what the gradient of a tensor read in slices looks like. A sequence of n steps read one by one would write
// n tensors of its full size and add them; joined, its gradient is written once.
//
// Only parts that lie beside each other along one axis are joined, and only in sums of such parts and at most one
// other value: then no element is the sum of more than two values and the result is the same, whatever the order.
//
// Expects: nothing. Ensures: nothing more.
// After canonicalise, which merges nested pads; before merge_common, which would make pads shared.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void join_pads(Graph& graph, const PassContext& context);

}  // namespace aspen
