// Residences: places of everything that outlives a task or belongs to none: variables, constants, values in the slots
// of lanes. What it does not know lives in the scratch memory of the one task that makes and uses it. Made by
// plan_memory.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "aspen/compiler/memory/plan.h"

namespace aspen {

using OpDemands = std::unordered_map<const Op*, OpDemand>;

class Residences {
 public:
  Residences(const Graph& graph, const OpDemands& demands, MemoryPlan& plan);

  std::size_t variable_index(const Variable* variable) const { return variable_index_.at(variable); }
  // The value whose bytes this one shows: itself unless an alias op made it.
  const Value* root(const Value* value) const { return roots_[value->id()]; }
  // Place of a root as a task sees it; nothing: the task's own scratch memory.
  std::optional<BufferRef> find(const Value* root, std::int64_t task) const;
  // Inputs of the graph that reach their lane with this task.
  const std::vector<std::size_t>& inputs_of(std::int64_t task) const { return inputs_of_[task]; }
  // Which of the inputs of the graph this is.
  std::size_t input_index(const Value* input) const { return input_index_.at(input); }
  // Outputs of the graph that leave at the end of this task.
  const std::vector<std::size_t>& outputs_of(std::int64_t task) const { return outputs_of_[task]; }

 private:
  void find_roots();
  void find_consumers();
  std::int64_t task_of_output(const Value* value) const;
  std::set<std::size_t> devices_brought_to(const Value& variable) const;
  void place_variables();
  void place_constants(const OpDemands& demands);
  void place_values(const OpDemands& demands);
  bool reads(std::int64_t task, std::int64_t lane) const;
  void place_inputs(const OpDemands& demands);
  std::vector<bool> copied_inputs(const OpDemands& demands) const;
  void keep_in_lane(const Value* value, std::int64_t lane, Arena arena, std::int64_t first, std::int64_t last);
  void assign_slots();
  std::int64_t lane_of(std::int64_t task) const { return graph_.tasks[task].lane; }
  std::int64_t device_of(std::int64_t task) const { return graph_.tasks[task].device; }

  const Graph& graph_;
  MemoryPlan& plan_;
  std::vector<const Value*> roots_;                               // by value id
  std::vector<std::vector<std::int64_t>> consumers_;              // tasks that use a root, ascending, by value id
  std::vector<bool> has_tasks_;                                   // by lane; one without only receives
  std::vector<std::vector<std::size_t>> inputs_of_, outputs_of_;  // by task
  std::vector<std::optional<BufferRef>> places_;                  // by value id; of all but variables and inputs
  std::map<std::pair<std::int64_t, std::int64_t>, BufferRef> inputs_in_lanes_;  // by value id and lane
  std::vector<bool> is_copied_;                                                 // by input
  std::unordered_map<const Variable*, std::size_t> variable_index_;
  std::map<std::pair<std::size_t, std::size_t>, BufferRef> variable_places_;  // by index and device
  std::unordered_map<const Value*, std::size_t> input_index_;
  struct Kept {
    const Value* value;
    std::int64_t lane;
    Arena arena;
    std::int64_t first, last;
  };
  std::vector<Kept> kept_;
};

}  // namespace aspen
