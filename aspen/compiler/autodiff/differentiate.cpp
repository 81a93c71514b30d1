#include "aspen/compiler/autodiff/differentiate.h"

#include <algorithm>

#include "aspen/compiler/autodiff/differentiator.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/build.h"

namespace aspen {
namespace {

void set_gradients(Graph& graph, Differentiator& differentiator) {
  for (const auto& variable : graph.variables()) {
    Value* gradient = differentiator.gradient_or_zeros(variable->value.get());
    if (gradient == nullptr) continue;
    if (gradient->name().empty()) gradient->set_name("Gradient___" + variable->name);  // for the reader
    graph.set_gradient(*variable, gradient);
  }
}

}  // namespace

void differentiate(Graph& graph, const PassContext&) {
  Differentiator differentiator(graph);
  Op* loss = std::find_if(graph.ops().begin(), graph.ops().end(), [](const auto& op) { return op->is("loss"); })->get();
  Value* root = loss->input(0);
  differentiator.like(*loss);
  replace_op(graph, loss, root);
  if (differentiator.wants_gradient(root)) {
    Value* seed = build::full_like(differentiator.builder(), root, 1);
    seed->set_name(kSeedName);
    differentiator.add(root, seed);
  }
  differentiator.visit_all();
  set_gradients(graph, differentiator);
}

}  // namespace aspen
