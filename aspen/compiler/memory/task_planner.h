// Plans one task: which of its values share a buffer, where they lie in the scratch memory of its device, and the calls
// that remain. Called by plan_memory for every task.
#pragma once

#include <vector>

#include "aspen/compiler/memory/plan.h"
#include "aspen/compiler/memory/residences.h"

namespace aspen {

// `ops` are those of the task in their order. Raises scratch_bytes to what the task needs.
TaskPlan plan_task(const Graph& graph, std::int64_t task, const std::vector<const Op*>& ops, const OpDemands& demands,
                   const Residences& residences, std::size_t& scratch_bytes);

}  // namespace aspen
