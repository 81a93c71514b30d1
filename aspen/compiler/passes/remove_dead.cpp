#include "aspen/compiler/passes/remove_dead.h"

#include <algorithm>

#include "aspen/compiler/ir/op_def.h"

namespace aspen {
namespace {

bool is_dead(const Op& op) {
  if (!op.is_droppable()) return false;
  auto outputs = op.outputs();
  return std::none_of(outputs.begin(), outputs.end(), [](const Value* output) { return output->is_used(); });
}

}  // namespace

void remove_dead(Graph& graph, const PassContext&) {
  // Backwards, so that an op is seen after all its users.
  for (auto place = graph.ops().end(); place != graph.ops().begin();) {
    Op* op = (--place)->get();
    if (!is_dead(*op)) continue;
    ++place;
    graph.erase(op);
  }
}

const Condition kNothingDead{"nothing_dead", [](const Graph& graph) -> std::string {
                               for (const auto& op : graph.ops()) {
                                 if (is_dead(*op)) return "nothing uses the results of a " + op->name();
                               }
                               return "";
                             }};

}  // namespace aspen
