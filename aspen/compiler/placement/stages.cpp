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

RemadeOps::RemadeOps(const Graph& graph) : is_remade_(static_cast<std::size_t>(graph.num_values()), false) {
  std::vector<bool> is_assigned(static_cast<std::size_t>(graph.num_values()), false);  // by the step section
  for (const auto& variable : graph.variables()) {
    is_assigned[variable->value->id()] = is_assigned_in_step(*variable->value);
  }
  const auto is_remade_alias = [&](const Op& alias) {
    const Value& input = *alias.input(0);
    if (input.producer() != nullptr) return (*this)(*input.producer());
    return alias.section == Section::kUpdate || !is_assigned[input.id()];
  };
  for (const auto& op : graph.ops()) {
    if (op->num_outputs() == 0) continue;
    is_remade_[op->output()->id()] = op->def().is_alias() ? is_remade_alias(*op) : op->def().is_source();
  }
}

std::vector<Op*> placed_ops(const Graph& graph, const RemadeOps& is_remade) {
  std::vector<Op*> result;
  for (const auto& op : graph.ops()) {
    if (op->section == Section::kStep && !is_remade(*op)) result.push_back(op.get());
  }
  return result;
}

std::vector<Op*> placed_producers(const Op& op, const RemadeOps& is_remade) {
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
  for (const Op* op : placed_ops(graph, RemadeOps(graph))) devices.insert(op->placement.device);
  return {devices.begin(), devices.end()};
}

Stages::Stages(const Graph& graph) {
  std::map<std::int64_t, const Op*> placed;  // placed stage -> its first op
  for (const Op* op : placed_ops(graph, RemadeOps(graph))) {
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
