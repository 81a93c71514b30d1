#include "aspen/compiler/passes/anchor_gradients.h"

#include <algorithm>

#include "aspen/compiler/passes/anchor_tensors.h"
#include "aspen/compiler/passes/rewrite.h"

namespace aspen {
namespace {

constexpr std::string_view kGradient = "Gradient___";

std::string gradient_name(const Variable& variable) { return fmt::format("{}{}", kGradient, variable.name); }

}  // namespace

bool is_gradient_name(const std::string& tensor) { return tensor.starts_with(kGradient); }

void anchor_gradients(Graph& graph, const PassContext& context) {
  const std::vector<Variable*> variables = variables_with_gradients(graph);
  std::vector<std::string> names;
  for (const Variable* variable : variables) names.push_back(gradient_name(*variable));
  add_tensor_names(names, context);
  for (const Anchor& anchor : context.options.anchors) {
    if (!is_gradient_name(anchor.tensor)) continue;
    const auto found = std::find(names.begin(), names.end(), anchor.tensor);
    if (found == names.end()) refuse_anchor(anchor, names, "; gradients are those of parameters that the loss reaches");
    graph.add_output(kAnchorPrefix + anchor.name, variables[found - names.begin()]->gradient());
  }
}

}  // namespace aspen
