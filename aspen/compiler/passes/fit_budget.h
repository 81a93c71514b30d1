// Sees that the program keeps to CompileOptions::memory_budget, before anything is decided that costs or spares memory.
//
//   budget 256 MiB    as asked: 321 MiB    optimiser state off the device: 268 MiB    and parts recomputed: 197 MiB
//
// The passes after it are tried on copies of the graph, down to the memory plan. Without a budget nothing happens. A
// program that is over it is a UserError with a table of its memory and with what each remedy would save; if the budget
// is automatic, remedies are added one by one, the cheapest first, until the program fits, and those are dropped again
// that it fits without. What was chosen, and what it costs, is logged. No remedy changes a result by a bit.
//
// Expects: nothing. Ensures: nothing more.
// Just before recompute, the first pass that a remedy tells something else.
#pragma once

#include "aspen/compiler/passes/pass.h"
#include "aspen/runtime/footprint.h"

namespace aspen {

void fit_budget(Graph& graph, const PassContext& context);

// For a program that has been built: an error with the table if it is over its budget after all.
void check_budget(const Program& program);

}  // namespace aspen
