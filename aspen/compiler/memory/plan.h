// The memory plan: from a scheduled graph to calls over fixed buffers. Decides which values share a buffer
// (aliases, in-place results, results written straight into the variable they are assigned to), where copies
// remain, and the offset of everything. Called last, by build_program.
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
};

// An op to run, or a copy that stands for an assign or keeps the old contents of a variable.
struct PlannedCall {
  const Op* op = nullptr;
  bool is_copy = false;
  std::vector<BufferRef> inputs, outputs;
  BufferRef workspace;
};

// A buffer in the scratch arena, alive from call `first` to call `last`; -1: before the first call (an input);
// the number of ops: after the last (an output).
struct PlannedBuffer {
  const Value* value = nullptr;  // the first value it holds; nullptr for a workspace or a saved variable
  BufferRef place;
  std::int64_t first = 0, last = 0;
};

struct SectionPlan {
  std::vector<PlannedCall> calls;
  std::vector<PlannedBuffer> buffers;
};

struct MemoryPlan {
  std::vector<BufferRef> inputs, outputs, variables;  // in the order of the graph
  std::vector<std::pair<const Op*, BufferRef>> constants;
  SectionPlan step, update;
  std::size_t variable_bytes = 0, constant_bytes = 0, scratch_bytes = 0;
};

MemoryPlan plan_memory(const Graph& graph, const std::function<OpDemand(const Op&)>& demand);

}  // namespace aspen
