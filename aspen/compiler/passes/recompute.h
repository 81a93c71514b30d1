// Lets the backward pass compute values of the forward pass again instead of keeping them.
//
//   %1 = exp(%x)                                     %1 = exp(%x)
//   %2 = tanh(%1)                                    %2 = tanh(%1)
//   %3 = mul(%2, %2)                      =>         %3 = mul(%2, %2)
//   ...                                              ...
//   %8 = mul(%7, %2) backward                        %9 = exp(%x) backward
//                                                    %10 = tanh(%9) backward
//                                                    %8 = mul(%7, %10) backward
//
// A value that a backward op reads is made again from what its stage received (inputs, variables, values of other
// stages) and from what is kept: values marked with `checkpoint`; results of ops that must run once only (impure ones,
// such as host calls and prints); results of ops that read a variable the forward pass assigns, which holds something
// else by then. The copies stand just before the first backward op that needs them, so a part between two checkpoints
// occupies memory only while its own gradients are computed. Random numbers depend on seed, step and stream alone:
// copies draw the same. Results do not change by a bit.
//
// Which ops of which stages do so is said by CompileOptions::recompute; of normalisations and activations alone, those
// that cheap_chains.h finds worth it. Where the compiler may keep what it wants, choose_checkpoints.h finds it. Stages
// are those of the pipeline; in sharded execution a device is one, in phased execution what a device does in a phase.
//
// Expects: nothing. Ensures: no checkpoint is left, whether anything is computed again or not.
// After the last merge_common, which would undo it, and before tensors are given places. Originals that only the
// backward pass has used are left to remove_dead.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void recompute(Graph& graph, const PassContext& context);

extern const Condition kNoCheckpoints;

}  // namespace aspen
