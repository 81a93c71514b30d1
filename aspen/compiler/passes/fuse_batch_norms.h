// Lets a batch normalisation do what follows it, the sum with a shortcut, relu and clamp, and its gradient what comes
// before that: the mask. Activations are read and written once, and what passes between is never in memory.
//
//   %y, %m, %r = batch_norm(%x, %s, %b)                  %a, %m, %r = batch_norm_bounded(%x, %s, %b, _)
//   %a = clamp(%y) {0, 6}                                                 {0, 6}
//   ...                                            =>    ...
//   %h = clamp_grad(%y, %g) {0, 6}   backward
//   %dx, ... = batch_norm_grad(%x, %s, %b,               %dx, ... = batch_norm_grad(%x, %s, %b,
//                      %m, %r, %h)   backward                               %m, %r, %g) {0, 6}   backward
//
// The bits stay: a fused op rounds where its parts do, and the gradient makes %y again as it was. Float32 only, and not
// when floating-point exceptions are looked for, as in fuse_convolutions. A clamp whose mask somebody else reads stays,
// and so does a sum with what is made later: of two normalisations that are added, the second adds the first.
//
// Expects: nothing. Ensures: nothing more. After the graph is cut into tasks: what it joins belongs to one task.
// Before repeat_quick: relu belongs to the normalisation rather than to the backward pass.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void fuse_batch_norms(Graph& graph, const PassContext& context);

}  // namespace aspen
