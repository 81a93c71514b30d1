// Who waits for whom: the waits of every task of a partitioned graph. Called by build_program.
//
// They carry the data (a consumer waits for the producer of what it reads) and guard the slots of lanes: nobody writes
// into a slot before its last micro-batch is through, and what is sent into a lane while it is at work comes after
// the lane's earlier tasks, whose buffers it may take over. Where the lanes hold one micro-batch each (sharded and
// phased execution), devices compute one after the other, in the order of the tasks.
#pragma once

#include <vector>

#include "aspen/compiler/ir/graph.h"
#include "aspen/runtime/program.h"

namespace aspen {

// By task of the graph. The tasks they name are numbered within their section, as in Program.
std::vector<std::vector<Wait>> find_waits(const Graph& graph);

}  // namespace aspen
