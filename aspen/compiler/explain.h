// What became of a model, for who reads the log: ops that run as one, tensors that are reordered and what that costs,
// and how long a step should take. Called by build_program; silent unless DEBUG is logged.
#pragma once

#include <string>
#include <vector>

#include "aspen/compiler/ir/graph.h"
#include "aspen/runtime/program.h"

namespace aspen {

// Lines of text, of a graph that has been scheduled. Times are guesses from shapes.
std::vector<std::string> explain_fusion(const Graph& graph);
std::vector<std::string> explain_reorders(const Graph& graph);
std::vector<std::string> explain_time(const Program& program);

void log_explanation(const Graph& graph, const Program& program);

}  // namespace aspen
