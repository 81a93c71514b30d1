// Finds the loss that training differentiates. Every recognised loss of the model carries a marker op; a marked
// value that feeds another one is an ordinary value after all, and one must remain.
//
//   %a = loss(%x)                 %2 = mul(%x, %y)
//   %2 = mul(%a, %y)       =>     %b = loss(%2)
//   %b = loss(%2)
//
// Where names of tensors are wanted (anchor_tensors.h), it is called "loss".
// Expects: nothing. Ensures: exactly one `loss` op, of one element.
// First, because what comes after speaks of the loss.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

// UserError when there is no loss, several independent ones, or one with more than one element.
void select_loss(Graph& graph, const PassContext& context);

extern const Condition kSingleLoss;

}  // namespace aspen
