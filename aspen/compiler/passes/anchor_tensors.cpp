#include "aspen/compiler/passes/anchor_tensors.h"

#include <algorithm>
#include <map>

#include "aspen/base/error.h"
#include "aspen/compiler/passes/anchor_gradients.h"

namespace aspen {
namespace {

constexpr std::string_view kUpdated = "UpdatedVar___";

std::string name_of_input(const Value& input) {
  return input.name().starts_with("input") ? input.name() : "input___" + input.name();
}

std::string name_of_result(const Op& op, const Value& value) {
  if (!value.name().empty()) return value.name();
  const std::string& scope = op.location.scope;
  return fmt::format("{}{}{}:{}", scope, scope.empty() ? "" : "/", op.name(), value.id());
}

bool is_updated_name(const std::string& name) { return name.starts_with(kUpdated); }

// Parameters and buffers are what the micro-batch begins with; the others belong to the update.
bool is_read_by_steps(const Variable& variable) {
  return variable.kind == VariableKind::kParameter || variable.kind == VariableKind::kBuffer;
}

// Calls `found` with the name and value of everything that a step may return; value nullptr: what the update leaves.
template <class F>
void for_each_tensor(const Graph& graph, const F& found) {
  for (const auto& input : graph.inputs()) found(name_of_input(*input), input.get());
  for (const auto& variable : graph.variables()) {
    if (variable->kind == VariableKind::kSetting) continue;  // a list of numbers that have no names of their own
    found(variable->name, is_read_by_steps(*variable) ? variable->value.get() : nullptr);
  }
  for (const auto& op : graph.ops()) {
    for (Value* value : op->outputs()) {
      if (is_updated_name(value->name())) {
        found(value->name(), nullptr);
      } else if (op->section == Section::kStep && !is_gradient_name(value->name()) &&
                 (!op->backward || !value->name().empty())) {
        found(name_of_result(*op, *value), value);
      }
    }
  }
}

}  // namespace

void refuse_anchor(const Anchor& anchor, const std::vector<std::string>& names, std::string_view rule) {
  throw UserError(
      "[anchorTensor] \"{}\" stands for tensor \"{}\", which the model does not have{}. getTensorNames() lists what it "
      "has; close matches: {}.",
      anchor.name, anchor.tensor, rule, near_matches(anchor.tensor, names));
}

void add_tensor_names(const std::vector<std::string>& names, const PassContext& context) {
  if (context.tensor_names == nullptr) return;
  context.tensor_names->insert(context.tensor_names->end(), names.begin(), names.end());
}

void anchor_tensors(Graph& graph, const PassContext& context) {
  const bool training = context.options.training;
  std::vector<std::string> names;
  std::map<std::string, Value*> tensors;
  for_each_tensor(graph, [&](const std::string& name, Value* value) {
    if (tensors.emplace(name, value).second) names.push_back(name);
  });
  add_tensor_names(names, context);
  for (const Anchor& anchor : context.options.anchors) {
    if (training && is_gradient_name(anchor.tensor)) continue;
    const auto found = tensors.find(anchor.tensor);
    if (found == tensors.end()) {
      refuse_anchor(anchor, names,
                    !training && is_gradient_name(anchor.tensor) ? "; inference computes no gradients" : "");
    }
    if (found->second != nullptr) graph.add_output(kAnchorPrefix + anchor.name, found->second);
  }
}

const Variable* anchored_variable(const Graph& graph, const std::string& tensor) {
  if (is_updated_name(tensor)) return graph.find_variable(tensor.substr(kUpdated.size()));
  const Variable* variable = graph.find_variable(tensor);
  return variable != nullptr && !is_read_by_steps(*variable) ? variable : nullptr;
}

}  // namespace aspen
