#include "aspen/compiler/passes/rewrite.h"

#include <unordered_map>

#include "aspen/compiler/ir/op_def.h"

namespace aspen {

void replace_value(Graph& graph, Value* from, Value* to) {
  if (from->type() != to->type()) {
    throw InternalError("replacing a value of type {} by one of type {}", to_string(from->type()),
                        to_string(to->type()));
  }
  graph.replace_uses(from, to);
  if (to->name().empty() && !from->name().empty()) {
    to->set_name(from->name());
    from->set_name("");
  }
}

void replace_op(Graph& graph, Op* op, Value* to) {
  replace_value(graph, op->output(), to);
  graph.erase(op);
}

std::vector<ParameterGradient> find_gradients(const Graph& graph, std::string_view prefix) {
  std::unordered_map<const Variable*, Value*> gradients;
  for (const auto& op : graph.ops()) {
    for (Value* output : op->outputs()) {
      std::string_view name = output->name();
      if (!name.starts_with(prefix)) continue;
      Variable* variable = graph.find_variable(name.substr(prefix.size()));
      if (variable != nullptr && variable->trainable) gradients.emplace(variable, output);
    }
  }
  std::vector<ParameterGradient> result;  // in the order of the variables
  for (const auto& variable : graph.variables()) {
    auto found = gradients.find(variable.get());
    if (found != gradients.end()) result.push_back({variable.get(), found->second});
  }
  return result;
}

Value* find_value(const Graph& graph, std::string_view name) {
  for (const auto& op : graph.ops()) {
    for (Value* output : op->outputs()) {
      if (output->name() == name) return output;
    }
  }
  return nullptr;
}

}  // namespace aspen
