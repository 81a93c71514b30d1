// Computes while compiling what depends on constants alone.
//
//   %1 = full() {value=2}
//   %2 = full() {value=3}         =>     %3 = full() {value=6}
//   %3 = mul(%1, %2)
//
// A result that is the same everywhere becomes a `full`, others a `constant`; large results stay computed. Random
// and impure ops are never folded.
//
// Expects: nothing. Ensures: nothing more. Leaves dead ops to remove_dead.
// Between two runs of canonicalise, which turns broadcasts and reshapes of constants into constants.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

// Does nothing without a backend to compute with.
void fold_constants(Graph& graph, const PassContext& context);

}  // namespace aspen
