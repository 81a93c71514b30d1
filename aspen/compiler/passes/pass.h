// A pass is a function over a graph; the runner is the one way to call it. It times the pass, writes the graph to
// a file when asked, skips by name, then verifies the graph and the conditions the pass promises (see
// CompileOptions::verify_passes).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "aspen/compiler/compile.h"
#include "aspen/compiler/ir/graph.h"

namespace aspen {

struct PassContext {
  const CompileOptions& options;
  const Backend* backend = nullptr;                  // evaluates constants; nullptr: nothing is evaluated
  std::vector<std::string>* tensor_names = nullptr;  // to be filled by anchor_tensors.h; nullptr: nobody wants them
  // The same options, for passes that decide for the ones after them; nullptr: they must not.
  CompileOptions* chosen = nullptr;
  std::vector<StageStart>* stage_starts = nullptr;  // to be filled by cut_stages.h; nullptr: nobody wants them
};

// Something a graph fulfils or not, apart from what the verifier always asks.
struct Condition {
  std::string_view name;
  // Empty when it holds, otherwise what is wrong.
  std::string (*violation)(const Graph& graph);
};

struct Pass {
  std::string_view name;
  std::string_view intent;
  void (*function)(Graph& graph, const PassContext& context) = nullptr;
  std::vector<Condition> expects = {};
  std::vector<Condition> ensures = {};
  // Without it a program computes the same: it may be slower, take more memory and round otherwise.
  bool is_optional = false;
};

// Runs the passes in order, except those in options.skip_passes. The graph they leave behind is verified in any case.
// With the environment variable ASPEN_DUMP set to a folder, the graph is written there before the first pass and after
// each.
void run_passes(Graph& graph, std::span<const Pass> passes, const PassContext& context);

}  // namespace aspen
