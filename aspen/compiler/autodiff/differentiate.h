// Reverse-mode differentiation: adds, for every trainable parameter on a path to the loss, the ops that compute its
// gradient. Gradients are ops of the graph like any other.
//
//   %y = dot(%x, %w)                 %y = dot(%x, %w)
//   %l = reduce_sum(%y)       =>     %l = reduce_sum(%y)
//   %loss = loss(%l)                 %loss_seed = full() {value=1}
//                                    %0 = broadcast(%loss_seed)
//                                    %Gradient___w = dot(%x, %0) {transpose_a=true}      all flagged backward
//                                    gradient %w: %Gradient___w
//
// Which values want a gradient: gradient_paths.h. Gradients of a value with several uses add up in a fixed order: last
// use first. Ops of ops/gradient lead them another way, and show them to hooks.
//
// A parameter that only zeros reach (through a rounding, say) has a gradient of zeros, as in PyTorch; one that nothing
// reaches has none and is not updated.
//
// Expects: one loss. Ensures: no loss marker is left; Variable::gradient of each such parameter is set.
// Right after select_loss and before anything rewrites the graph: `detach` and no_grad are still where the user put
// them.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

// UserError naming op and location when an op on a needed path has no gradient.
void differentiate(Graph& graph, const PassContext& context);

}  // namespace aspen
