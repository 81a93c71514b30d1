// Decides which task runs each op of the step section: by stage and direction (pipelined and phased execution) or by
// runs on one device (sharded). Called by `partition`, first.
#pragma once

#include "aspen/compiler/compile.h"
#include "aspen/compiler/ir/graph.h"

namespace aspen {

// Fills Graph::tasks and Graph::lanes with those of the step section and sets Op::task of its ops, but not of
// RemadeOps. Tasks may be left without ops.
void make_step_tasks(Graph& graph, const CompileOptions& options);

}  // namespace aspen
