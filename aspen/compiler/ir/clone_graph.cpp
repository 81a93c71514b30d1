#include "aspen/compiler/ir/clone_graph.h"

#include "aspen/compiler/ir/body.h"

namespace aspen {
namespace {

void clone_inputs(const Graph& from, GraphCopier& to) {
  for (std::size_t i = 0; i < from.inputs().size(); ++i) {
    to.add_input(*from.inputs()[i]);
    if (from.is_overlapped_input(i)) to.graph().overlap_input(i);
  }
}

void clone_variables(const Graph& from, GraphCopier& to) {
  for (const auto& variable : from.variables()) {
    Variable* made =
        to.graph().add_variable(variable->name, variable->kind, variable->value->type(), variable->trainable);
    made->initial = variable->initial;
    made->off_device = variable->off_device;
    made->reduced = variable->reduced;
    made->sharded = variable->sharded;
    made->gathered = variable->gathered;
    made->numel = variable->numel;
    made->shape = variable->shape;
    made->grouping = variable->grouping;
    made->value->set_name(variable->value->name());
    to.map(variable->value.get(), made->value.get());
  }
}

void clone_outputs(const Graph& from, GraphCopier& to) {
  for (std::size_t i = 0; i < from.outputs().size(); ++i) {
    to.graph().add_output(from.outputs()[i].name, to[from.outputs()[i].value]);
    if (from.outputs()[i].overlapped) to.graph().overlap_output(i);
  }
  for (std::size_t i = 0; i < from.variables().size(); ++i) {
    const Value* gradient = from.variables()[i]->gradient();
    if (gradient != nullptr) to.graph().set_gradient(*to.graph().variables()[i], to[gradient]);
  }
}

}  // namespace

std::unique_ptr<Graph> clone_graph(const Graph& graph) {
  auto copy = std::make_unique<Graph>(graph.name());
  GraphCopier copier(*copy);
  clone_inputs(graph, copier);
  clone_variables(graph, copier);
  for (const auto& op : graph.ops()) copier.copy(*op);
  clone_outputs(graph, copier);
  copy->tasks = graph.tasks;
  copy->lanes = graph.lanes;
  return copy;
}

}  // namespace aspen
