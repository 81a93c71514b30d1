// Makes one op of log_softmax and nll, and one of their gradients, as capture makes them of a cross entropy.
//
//   %1 = log_softmax(%x) {axis=1}
//   %2, %3 = nll(%1, %t, _)                             %2, %3, %4, %5 = cross_entropy(%x, %t, _)
//   ...                                            =>   ...
//   %8 = nll_grad(%t, _, %3, %g, %1)      backward
//   %9 = log_softmax_grad(%1, %8) {1}     backward      %9 = cross_entropy_grad(%x, %t, _, %3, %g, %4, %5)   backward
//
// The gradient by the log probabilities, nearly all zeros, is never in memory. Somebody else may read the log
// probabilities: they stay then, and the gradient is made from them (cross_entropy_grad without statistics). Float32
// only: half rounds log probabilities. Rounds otherwise than the parts: what is fused follows from ops and their
// shapes, before there are tasks, also across a border of stages: what is one op then runs where nll does. Not when
// floating-point exceptions are looked for, since then every op is.
//
// Expects: nothing. Ensures: nothing more. Before the graph is cut into tasks, and before recompute, so that every copy
// of an op is fused alike.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void fuse_cross_entropy(Graph& graph, const PassContext& context);

}  // namespace aspen
