#include "aspen/compiler/passes/remove_markers.h"

#include "aspen/compiler/passes/rewrite.h"

namespace aspen {
namespace {

bool is_marker(const Op& op) { return op.is("loss") || op.is("detach"); }

}  // namespace

void remove_markers(Graph& graph, const PassContext&) {
  for (auto place = graph.ops().begin(); place != graph.ops().end();) {
    Op* op = (place++)->get();
    if (is_marker(*op)) replace_op(graph, op, op->input(0));
  }
}

const Condition kNoMarkers{"no_markers", [](const Graph& graph) -> std::string {
                             for (const auto& op : graph.ops()) {
                               if (is_marker(*op)) return "a " + op->name() + " is left";
                             }
                             return "";
                           }};

}  // namespace aspen
