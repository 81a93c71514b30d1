#include "aspen/compiler/placement/cut_stages.h"

#include <algorithm>

#include "aspen/base/log.h"
#include "aspen/compiler/placement/measure_parts.h"

namespace aspen {
namespace {

bool is_empty(const PartCosts::Part& part) { return part.forward + part.backward == 0; }

// A stage that begins with nothing, or leaves nothing to the stage before it, is none.
void drop_empty_begins(PartCosts& costs) {
  bool has_begun = false;  // something comes before the part
  for (PartCosts::Part& part : costs.parts) {
    part.may_begin_stage = part.may_begin_stage && has_begun && !is_empty(part);
    has_begun = has_begun || !is_empty(part);
  }
}

std::vector<std::int64_t> find_cut(const CompileOptions& options, const PartCosts& costs) {
  const std::int64_t devices = options.stage_cut.devices;
  if (options.memory_budget.is_set()) {
    const auto limit = [&](std::int64_t stage) { return static_cast<double>(options.memory_budget.of(stage)); };
    std::vector<std::int64_t> begins = best_cut(costs, devices, limit);
    if (!begins.empty()) return begins;
    log::debug("[cut_stages] every cut is likely to be over the memory budget");
  }
  return best_cut(costs, devices);
}

[[noreturn]] void fail(const StageCut& cut, const PartCosts& costs) {
  std::int64_t most = cut.devices - 1;
  while (best_cut(costs, most).empty()) --most;
  throw UserError(
      "[AutoPipeline] the model cannot be cut into {} stages, at most into {}. A stage begins with the first call of a "
      "module, has all calls of that module, and all that reads a buffer which it changes. Use at most {} IPUs, or put "
      "more of forward into modules.",
      cut.devices, most, most);
}

void report(const StageCut& cut, const PartCosts& costs, const std::vector<std::int64_t>& begins) {
  const std::vector<double> times = costs.stage_times(begins);
  for (std::size_t i = 0; i < begins.size(); ++i) {
    log::info("[AutoPipeline] IPU {}: {:.3f} ms per micro-batch{}", i, times[i] / 1e6,
              i == 0 ? "" : ", begins with " + cut.parts[static_cast<std::size_t>(begins[i])].module);
  }
}

void place(Graph& graph, const std::vector<std::int64_t>& begins) {
  for (const auto& op : graph.ops()) {
    const auto next = std::upper_bound(begins.begin(), begins.end(), op->placement.stage);
    const std::int64_t stage = next - begins.begin() - 1;
    op->placement = {.device = stage, .stage = stage};
  }
}

}  // namespace

void cut_stages(Graph& graph, const PassContext& context) {
  const StageCut& cut = context.options.stage_cut;
  if (cut.devices == 0) return;
  if (context.backend == nullptr || context.chosen == nullptr)
    throw InternalError("cut_stages has nothing to try with");
  PartCosts costs = measure_parts(graph, context);
  drop_empty_begins(costs);
  const std::vector<std::int64_t> begins = find_cut(context.options, costs);
  if (begins.empty()) fail(cut, costs);
  place(graph, begins);
  report(cut, costs, begins);
  if (cut.observe) cut.observe(costs);
  context.chosen->num_stages = cut.devices;
  for (std::size_t i = 1; i < begins.size() && context.stage_starts != nullptr; ++i) {
    context.stage_starts->push_back(
        {.module = cut.parts[static_cast<std::size_t>(begins[i])].module, .device = static_cast<std::int64_t>(i)});
  }
}

}  // namespace aspen
