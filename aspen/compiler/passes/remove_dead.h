// Removes ops whose results nobody uses, unless they are impure.
//
//   %1 = exp(%x)
//   %2 = neg(%x)          =>     %2 = neg(%x)
//   return y: %2                 return y: %2
//
// Expects: nothing. Ensures: every op is used or impure.
// After each group of passes that leaves ops behind.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void remove_dead(Graph& graph, const PassContext& context);

extern const Condition kNothingDead;

}  // namespace aspen
