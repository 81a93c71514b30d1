#include "aspen/compiler/memory/plan.h"

#include "aspen/compiler/memory/residences.h"
#include "aspen/compiler/memory/task_planner.h"

namespace aspen {

MemoryPlan plan_memory(const Graph& graph, const std::function<OpDemand(const Op&)>& demand) {
  MemoryPlan plan;
  OpDemands demands;
  std::vector<std::vector<const Op*>> ops(graph.tasks.size());
  for (const auto& op : graph.ops()) {
    demands.emplace(op.get(), demand(*op));
    if (op->task >= 0) ops[op->task].push_back(op.get());
  }
  Residences residences(graph, demands, plan);
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    DevicePlan& device = plan.devices[graph.tasks[task].device];
    plan.tasks.push_back(
        plan_task(graph, static_cast<std::int64_t>(task), ops[task], demands, residences, device.scratch_bytes));
  }
  return plan;
}

}  // namespace aspen
