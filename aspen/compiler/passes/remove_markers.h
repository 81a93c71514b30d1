// Removes the ops that only told earlier passes something: loss, detach and those of ops/gradient.
//
//   %1 = detach(%x)
//   %2 = neg(%1)          =>     %2 = neg(%x)
//
// Expects: nothing. Ensures: no such op is left.
// After the passes that read the markers (select_loss, differentiate); before canonicalise, which they would stop
// from seeing through them. A checkpoint stays until recompute has read it.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void remove_markers(Graph& graph, const PassContext& context);

extern const Condition kNoMarkers;

}  // namespace aspen
