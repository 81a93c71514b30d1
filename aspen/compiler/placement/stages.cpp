#include "aspen/compiler/placement/stages.h"

#include <algorithm>
#include <set>

#include "aspen/base/error.h"
#include "aspen/compiler/evaluate.h"
#include "aspen/compiler/ir/op_def.h"

namespace aspen {
namespace {

std::string place_of(const Op& op) {
  std::string where = describe(op.location);
  return fmt::format("{}{} on device {}", op.name(), where.empty() ? "" : " at " + where, op.placement.device);
}

}  // namespace

bool is_assigned_in_step(const Value& variable) {
  return std::any_of(variable.users().begin(), variable.users().end(), [&](const Op* user) {
    return user->section == Section::kStep && user->is("assign") && user->input(0) == &variable;
  });
}

bool is_remade(const Op& op) {
  const Op* origin = &op;
  while (origin->def().is_alias()) {
    const Value& input = *origin->input(0);
    origin = input.producer();
    if (origin == nullptr) return op.section == Section::kUpdate || !is_assigned_in_step(input);
  }
  return origin->def().is_source();
}

std::vector<std::int64_t> devices_in_use(const Graph& graph) {
  std::set<std::int64_t> devices;
  for (const auto& op : graph.ops()) {
    if (op->section == Section::kStep && !is_remade(*op)) devices.insert(op->placement.device);
  }
  return {devices.begin(), devices.end()};
}

Stages::Stages(const Graph& graph, Execution execution) : is_phased_(execution == Execution::kPhased) {
  std::map<Key, const Op*> placed;  // placed stage -> its first op
  for (const auto& op : graph.ops()) {
    if (op->section != Section::kStep || is_remade(*op)) continue;
    const Op& first = *placed.emplace(key_of(op->placement), op.get()).first->second;
    if (first.placement.device == op->placement.device) continue;
    throw UserError(
        "{} has ops on two devices: {} and {}. A stage runs on one device; give the blocks on the second device a "
        "stage of their own.",
        is_phased_ ? fmt::format("stage {} of phase {}", op->placement.stage, op->placement.phase)
                   : fmt::format("pipeline stage {}", op->placement.stage),
        place_of(first), place_of(*op));
  }
  for (const auto& [key, op] : placed) {
    bool continues = !placements_.empty() && placements_.back().device == op->placement.device &&
                     key_of(placements_.back()).first == key.first;
    if (!continues) placements_.push_back(op->placement);
    index_of_.emplace(key, placements_.size() - 1);
  }
  if (placements_.empty()) placements_.emplace_back();  // nothing but sources
}

std::string Stages::name(std::size_t stage) const {
  const Placement& place = placements_[stage];
  if (!is_phased_) return fmt::format("stage {}", place.stage);
  auto is_same_phase = [&](const Placement& other) { return other.phase == place.phase; };
  bool is_alone = std::count_if(placements_.begin(), placements_.end(), is_same_phase) == 1;
  return is_alone ? fmt::format("phase {}", place.phase)
                  : fmt::format("stage {} of phase {}", place.stage, place.phase);
}

std::size_t Stages::index_of(const Placement& placement) const {
  auto next = index_of_.upper_bound(key_of(placement));
  return next == index_of_.begin() ? 0 : std::prev(next)->second;
}

}  // namespace aspen
