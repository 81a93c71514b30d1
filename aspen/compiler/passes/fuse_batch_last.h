// Lets convolutions of images that lie batch last do what follows them, and its gradient: relu, and the maximum over
// windows that touch. What they write is then a fourth, and never read again.
//
//   %1 = conv_last(%x, %w)
//   %2 = relu(%1)                                   %3, %p = conv_last_pool(%x, %w) {relu=true}
//   %3, %p = max_pool_last(%2)                =>
//   ...                                             ...
//   %6 = max_pool_last_grad(%g, %p)                 %7 = relu_grad(%3, %g)
//   %7 = relu_grad(%2, %6)                          %8, %9 = conv_last_pool_weight_grad(%x, %7, %p)
//   %8, %9 = conv_last_weight_grad(%x, %7)
//
// A relu before a maximum becomes one after it, where it has a fourth to do. Where all of a window is below zero, this
// changes which pixel counts as its maximum, and the gradient there is zero either way; a maximum may become a negative
// zero. What is fused follows from the ops alone, never from the placement: fused gradients are summed in another
// order. Not when floating-point exceptions are looked for, since then every op is.
//
// Expects: nothing. Ensures: nothing more. After put_batch_last, whose ops it joins.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void fuse_batch_last(Graph& graph, const PassContext& context);

}  // namespace aspen
