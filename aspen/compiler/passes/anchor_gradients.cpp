#include "aspen/compiler/passes/anchor_gradients.h"

#include <map>

#include "aspen/compiler/passes/anchor_tensors.h"
#include "aspen/compiler/passes/rewrite.h"

namespace aspen {
namespace {

constexpr std::string_view kGradient = "Gradient___";

std::string gradient_name(const Variable& variable) { return fmt::format("{}{}", kGradient, variable.name); }

}  // namespace

bool is_gradient_name(const std::string& tensor) { return tensor.starts_with(kGradient); }

void anchor_gradients(Graph& graph, const PassContext& context) {
  std::vector<std::string> names;
  std::map<std::string, const Variable*> variables;
  for (const Variable* variable : variables_with_gradients(graph)) {
    names.push_back(gradient_name(*variable));
    variables.emplace(names.back(), variable);
  }
  add_tensor_names(names, context);
  for (const Anchor& anchor : context.options.anchors) {
    if (!is_gradient_name(anchor.tensor)) continue;
    const auto found = variables.find(anchor.tensor);
    if (found == variables.end())
      refuse_anchor(anchor, names, "; gradients are those of parameters that the loss reaches");
    graph.add_output(kAnchorPrefix + anchor.name, found->second->gradient());
  }
}

}  // namespace aspen
