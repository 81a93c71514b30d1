// Removes ops whose results nobody uses, unless they have a side effect.
//
//   %1 = exp(%x)
//   %2 = neg(%x)          =>     %2 = neg(%x)
//   return y: %2                 return y: %2
//
// Expects: nothing. Ensures: every op is used or has a side effect.
// After each group of passes that leaves ops behind.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void remove_dead(Graph& graph, const PassContext& context);

extern const Condition kNothingDead;

}  // namespace aspen
