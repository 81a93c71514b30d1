#include "aspen/compiler/placement/place_variables.h"

#include <algorithm>

namespace aspen {
namespace {

// A single number is not worth moving. One must not even be: every device reads the number of updates while one of them
// raises it, so each needs a copy of its own.
constexpr std::int64_t kFewestElements = 2;

const TensorLocation* location_of(const TensorLocations& locations, VariableKind kind) {
  switch (kind) {
    case VariableKind::kParameter: return &locations.weights;
    case VariableKind::kOptimizerState: return &locations.optimizer_state;
    case VariableKind::kAccumulator: return &locations.accumulators;
    case VariableKind::kBuffer:
    case VariableKind::kSetting: break;
  }
  return nullptr;
}

}  // namespace

void place_variables(Graph& graph, const PassContext& context) {
  for (const auto& variable : graph.variables()) {
    const TensorLocation* location = location_of(context.options.locations, variable->kind);
    if (location == nullptr || !location->off_device) continue;
    std::int64_t numel = std::max(variable->numel, variable->value->type().numel());
    variable->off_device = numel >= std::max(kFewestElements, location->min_elements);
  }
}

}  // namespace aspen
