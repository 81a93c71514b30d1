#include "aspen/compiler/placement/stages.h"

#include <set>

#include "aspen/base/error.h"
#include "aspen/compiler/evaluate.h"

namespace aspen {
namespace {

std::string place_of(const Op& op) {
  std::string where = describe(op.location);
  return fmt::format("{}{} on device {}", op.name(), where.empty() ? "" : " at " + where, op.placement.device);
}

}  // namespace

std::vector<std::int64_t> devices_in_use(const Graph& graph) {
  std::set<std::int64_t> devices;
  for (const auto& op : graph.ops()) {
    if (op->section == Section::kStep) devices.insert(op->placement.device);
  }
  return {devices.begin(), devices.end()};
}

Stages::Stages(const Graph& graph) {
  std::map<std::int64_t, const Op*> placed;  // placed stage -> its first op
  for (const auto& op : graph.ops()) {
    if (op->section != Section::kStep) continue;
    const Op& first = *placed.emplace(op->placement.stage, op.get()).first->second;
    if (first.placement.device == op->placement.device) continue;
    throw UserError(
        "pipeline stage {} has ops on two devices: {} and {}. A stage runs on one device; give the blocks on the "
        "second device a stage of their own.",
        op->placement.stage, place_of(first), place_of(*op));
  }
  for (const auto& [stage, op] : placed) {
    if (devices_.empty() || devices_.back() != op->placement.device) devices_.push_back(op->placement.device);
    index_of_.emplace(stage, devices_.size() - 1);
  }
}

std::size_t Stages::index_of(const Placement& placement) const {
  auto found = index_of_.find(placement.stage);
  if (found == index_of_.end()) throw InternalError("no op of the step is placed on stage {}", placement.stage);
  return found->second;
}

}  // namespace aspen
