// Lets a convolution do what follows it: batch norm with running statistics, which is a factor and a summand per
// channel, the sum with a shortcut, relu and clamp. The result is written once, and not read and written again.
//
//   %1 = conv(%x, %w)
//   %2 = mul(%1, %scale)            =>     %4 = conv_affine(%x, %w, _, %scale, %shift, _) {low=0}
//   %3 = add(%2, %shift)
//   %4 = relu(%3)
//
// The bits stay: conv_affine rounds after each step. Float32 only, since half results may be rounded at random and are
// watched for overflows; not when floating-point exceptions are looked for, since then every op is.
//
// Expects: nothing. Ensures: nothing more. After the graph is cut into tasks: what it joins belongs to one task.
// Before repeat_quick: relu belongs to the convolution rather than to the backward pass.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void fuse_convolutions(Graph& graph, const PassContext& context);

}  // namespace aspen
