#include "poptorch/model/graph_export.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "aspen/base/error.h"
#include "aspen/compiler/ir/printer.h"

namespace poptorch {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

const char* asks_for_graph() {
  for (const char* name : {"POPTORCH_EXPORT_PROTO_FILE", "ASPEN_DUMP"}) {
    if (!variable(name).empty()) return name;
  }
  return nullptr;
}

void export_graph(const aspen::Graph& graph) {
  const std::string path = variable("POPTORCH_EXPORT_PROTO_FILE"), binary = variable("POPTORCH_EXPORT_PROTO_AS_BINARY");
  if (path.empty()) return;
  if (!binary.empty() && binary != "0") {
    throw aspen::UserError(
        "[compile] POPTORCH_EXPORT_PROTO_AS_BINARY is set, but the graph is only written as text; unset it.");
  }
  std::filesystem::create_directories(std::filesystem::absolute(path).parent_path());
  std::ofstream file(path);
  file << aspen::to_text(graph);
  file.close();
  if (!file) throw aspen::UserError("[compile] POPTORCH_EXPORT_PROTO_FILE: \"{}\" cannot be written.", path);
}

}  // namespace poptorch
