// The memory plan: from a scheduled graph, cut into tasks, to calls over fixed buffers. Decides which values share a
// buffer (aliases, in-place results, results written straight into the variable they are assigned to), where copies
// remain, and the offset of everything. Inputs of the program are read where the host has them and outputs written
// where the host wants them, as far as nothing else lies there. Called last, by build_program. Two steps: residences.h
// finds places for what outlives a task, task_planner.h plans the scratch memory of each task around them.
//
//   %g = ...                            g at scratch + 0
//   %w2 = sgd(%w, %g, ...)      =>      sgd(w, g, ...) -> w         written in place
//   assign(%w, %w2)                     (no call)
#pragma once

#include <functional>
#include <vector>

#include "aspen/compiler/ir/graph.h"
#include "aspen/runtime/program.h"

namespace aspen {

// What the planner has to know of an op besides its definition.
struct OpDemand {
  bool is_constant = false;  // computed while compiling: lives in the constants
  std::size_t workspace_bytes = 0;
  bool copies_inputs =
      false;  // works on copies of the program's inputs: it may write to them, or reads other replicas'
};

// An op to run, or a copy that stands for an assign or keeps the old contents of a variable.
struct PlannedCall {
  const Op* op = nullptr;
  bool is_copy = false;
  std::vector<BufferRef> inputs, outputs;
  BufferRef workspace;
};

// A buffer in the scratch memory of a task, alive from call `first` to call `last`; -1: before the first call (an
// input); the number of calls: after the last (an output). Or a buffer in the slots of a lane, alive from task `first`
// to task `last`.
struct PlannedBuffer {
  const Value* value = nullptr;  // the first value it holds; nullptr for a workspace or a saved variable
  BufferRef place;
  std::int64_t first = 0, last = 0;
};

struct TaskPlan {
  std::vector<InputCopy> inputs;
  std::vector<PlannedCall> calls;
  std::vector<OutputCopy> outputs;
  std::vector<PlannedBuffer> buffers;
};

struct LanePlan {
  std::size_t slot_bytes = 0, host_slot_bytes = 0;
  std::vector<PlannedBuffer> buffers;
};

struct MemoryPlan {
  std::vector<std::vector<BufferRef>> variables;  // places of each, in the order of the graph
  std::vector<std::pair<const Op*, BufferRef>> constants;
  std::vector<DevicePlan> devices;
  std::vector<LanePlan> lanes;
  std::vector<TaskPlan> tasks;  // in the order of the graph
};

MemoryPlan plan_memory(const Graph& graph, const std::function<OpDemand(const Op&)>& demand);

}  // namespace aspen
