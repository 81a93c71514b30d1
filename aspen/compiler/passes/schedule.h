// Puts the ops into the order in which they run: results are used soon after they are made, variables are written
// after they are read.
//
//   %1 = conv_weight_grad(...)              %1 = conv_weight_grad(...)
//   %2 = conv_input_grad(%g, %w)            %2 = conv_input_grad(%g, %w)
//   ...                              =>     %3 = sgd(%w, %1, ...)         the gradient dies here
//   %3 = sgd(%w, %1, ...)                   assign(%w, %3)
//   assign(%w, %3)                          ...
//
// Expects: nothing. Ensures: an assign comes after every read of its variable in the section.
// Last before the memory plan, which takes the order as it is. The result depends on the graph alone.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void schedule(Graph& graph, const PassContext& context);

extern const Condition kAssignedAfterReads;

}  // namespace aspen
