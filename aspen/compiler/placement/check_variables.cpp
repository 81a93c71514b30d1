#include "aspen/compiler/placement/check_variables.h"

#include "aspen/base/error.h"
#include "aspen/compiler/evaluate.h"

namespace aspen {
namespace {

std::string place_of(const Graph& graph, const Op& op) {
  std::string where = describe(op.location);
  return fmt::format("{} on IPU {}, stage {}{}", op.name(), graph.tasks[op.task].device, op.placement.stage,
                     where.empty() ? "" : " (captured at " + where + ")");
}

const Op* assign_of(const Variable& variable, Section section) {
  for (const Op* user : variable.value->users()) {
    if (user->section == section && user->is("assign") && user->input(0) == variable.value.get()) return user;
  }
  return nullptr;
}

void check(const Graph& graph, const Variable& variable, const Op& assign, const Op& reader) {
  const GraphTask& written = graph.tasks[assign.task];
  const GraphTask& read = graph.tasks[reader.task];
  if (reader.section == Section::kUpdate) {
    if (read.device == written.device) return;
    throw InternalError("variable \"{}\" lives on device {}; the update uses it on device {}", variable.name,
                        written.device, read.device);
  }
  if (read.lane != written.lane) {
    if (reader.backward && assign.task < reader.task) return;  // a gradient that has moved: it is sent what it needs
    throw UserError(
        "the forward pass assigns {} \"{}\" in {} and uses it in {}. Such a variable cannot be shared between IPUs or "
        "pipeline stages; put the blocks that use it on one IPU and into one stage.",
        name_of(variable.kind), variable.name, place_of(graph, assign), place_of(graph, reader));
  }
  if (reader.task < assign.task && graph.lanes[written.lane].depth > 1) {
    throw InternalError("variable \"{}\" is read by \"{}\" before \"{}\" of the previous micro-batch has assigned it",
                        variable.name, read.name, written.name);
  }
}

}  // namespace

void check_variables(const Graph& graph) {
  for (const auto& variable : graph.variables()) {
    const Op* assign = assign_of(*variable, Section::kStep);
    if (assign == nullptr) continue;
    for (const Op* reader : variable->value->users()) check(graph, *variable, *assign, *reader);
  }
}

}  // namespace aspen
