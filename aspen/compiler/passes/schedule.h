// Puts the ops into the order in which they run: results are used soon after they are made, variables are written
// after they are read.
//
//   %1 = conv_weight_grad(...)              %1 = conv_weight_grad(...)
//   %2 = conv_input_grad(%g, %w)            %2 = conv_input_grad(%g, %w)
//   ...                              =>     %3 = sgd(%w, %1, ...)         the gradient dies here
//   %3 = sgd(%w, %1, ...)                   assign(%w, %3)
//   assign(%w, %3)                          ...
//
// Each task is ordered by itself, and the list holds one task after the other; a graph without tasks is ordered by
// section. Values leave a task as soon as they are made (send, store) and are loaded right before their first use.
//
// Expects: nothing. Ensures: an assign comes after every read of its variable in the task; tasks follow each other.
// Last before the memory plan, which takes the order as it is. The result depends on the graph alone.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void schedule(Graph& graph, const PassContext& context);

extern const Condition kAssignedAfterReads;
extern const Condition kGroupedByTask;

}  // namespace aspen
