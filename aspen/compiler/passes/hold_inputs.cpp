#include "aspen/compiler/passes/hold_inputs.h"

namespace aspen {

std::string held_input_name(const std::string& input) { return "synthetic___" + input; }

void hold_inputs(Graph& graph, const PassContext& context) {
  if (!context.options.holds_inputs) return;
  for (const auto& input : graph.inputs()) {
    if (!input->is_used()) continue;
    Variable* variable =
        graph.add_variable(held_input_name(input->name()), VariableKind::kBuffer, TensorType(input->type()));
    graph.replace_uses(input.get(), variable->value.get());
  }
}

}  // namespace aspen
