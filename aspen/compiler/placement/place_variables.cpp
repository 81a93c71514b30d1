#include "aspen/compiler/placement/place_variables.h"

#include <algorithm>
#include <set>

namespace aspen {
namespace {

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

// Whether updates on several devices read it, as they do the step counter: one of them would change it in host memory
// while the others still load it, where each device has a copy of its own otherwise.
bool is_shared_by_updates(const Value& value) {
  std::set<std::int64_t> devices;
  for (const Op* user : value.users()) {
    if (user->section == Section::kUpdate) devices.insert(user->placement.device);
  }
  return devices.size() > 1;
}

}  // namespace

void place_variables(Graph& graph, const PassContext& context) {
  for (const auto& variable : graph.variables()) {
    const TensorLocation* location = location_of(context.options.locations, variable->kind);
    if (location == nullptr || !location->off_device) continue;
    std::int64_t numel = std::max(variable->numel, variable->value->type().numel());
    variable->off_device = numel >= location->min_elements && !is_shared_by_updates(*variable->value);
  }
}

}  // namespace aspen
