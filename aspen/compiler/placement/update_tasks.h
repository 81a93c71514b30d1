// Decides which task runs each op of the update section. Called by `partition`, after the step section has its tasks.
#pragma once

#include "aspen/compiler/ir/graph.h"

namespace aspen {

// Adds the tasks and lanes of the update section and sets Op::task of its ops, but not of RemadeOps. One task
// per device; where a device needs something from another one (the norm over all gradients), it goes on in a second.
void make_update_tasks(Graph& graph);

}  // namespace aspen
