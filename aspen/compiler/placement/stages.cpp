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

std::vector<Op*> placed_ops(const Graph& graph) {
  std::vector<Op*> result;
  for (const auto& op : graph.ops()) {
    if (op->section == Section::kStep && !is_remade(*op)) result.push_back(op.get());
  }
  return result;
}

std::vector<Op*> placed_producers(const Op& op) {
  std::vector<Op*> result;
  for (const Value* input : op.inputs()) {
    if (input != nullptr && input->producer() != nullptr && !is_remade(*input->producer())) {
      result.push_back(input->producer());
    }
  }
  return result;
}

std::vector<std::int64_t> devices_in_use(const Graph& graph) {
  std::set<std::int64_t> devices;
  for (const Op* op : placed_ops(graph)) devices.insert(op->placement.device);
  return {devices.begin(), devices.end()};
}

Stages::Stages(const Graph& graph) {
  std::map<std::int64_t, const Op*> placed;  // placed stage -> its first op
  for (const Op* op : placed_ops(graph)) {
    const Op& first = *placed.emplace(op->placement.stage, op).first->second;
    if (first.placement.device == op->placement.device) continue;
    throw UserError(
        "pipeline stage {} has ops on two devices: {} and {}. A stage runs on one device; give the blocks on the "
        "second device a stage of their own.",
        op->placement.stage, place_of(first), place_of(*op));
  }
  for (const auto& [stage, op] : placed) {
    bool continues = !placements_.empty() && placements_.back().device == op->placement.device;
    if (!continues) placements_.push_back(op->placement);
    index_of_.emplace(stage, placements_.size() - 1);
  }
  if (placements_.empty()) placements_.emplace_back();  // nothing but sources
}

std::string Stages::name(std::size_t stage) const { return fmt::format("stage {}", placements_[stage].stage); }

std::size_t Stages::index_of(const Placement& placement) const {
  auto next = index_of_.upper_bound(placement.stage);
  return next == index_of_.begin() ? 0 : std::prev(next)->second;
}

}  // namespace aspen
