#include "aspen/compiler/passes/remove_markers.h"

#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/passes/rewrite.h"

namespace aspen {

void remove_markers(Graph& graph, const PassContext&) {
  for (auto place = graph.ops().begin(); place != graph.ops().end();) {
    Op* op = (place++)->get();
    if (!op->def().is_marker()) continue;
    for (std::size_t i = 0; i < op->num_outputs(); ++i) replace_value(graph, op->output(i), op->input(i));
    graph.erase(op);
  }
}

const Condition kNoMarkers{"no_markers", [](const Graph& graph) -> std::string {
                             for (const auto& op : graph.ops()) {
                               if (op->def().is_marker()) return "a " + op->name() + " is left";
                             }
                             return "";
                           }};

}  // namespace aspen
