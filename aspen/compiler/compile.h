// From a captured graph to a program. The passes and their order are in passes/pipeline.cpp.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "aspen/backends/api/kernel.h"
#include "aspen/compiler/ir/graph.h"
#include "aspen/ops/optimizer/optimizer.h"
#include "aspen/runtime/program.h"

namespace aspen {

// How parameters are updated. The numbers of a group live in a variable of kind kSetting named
// "settings___<group index>", f32[kNumSettings] in the order of enum Setting, so that the host may change them
// between runs.
struct OptimizerSpec {
  std::string kind;  // "sgd", "adam", "adamw", "rmsprop", "lamb"; empty: parameters stay as they are
  struct Group {
    std::vector<std::string> parameters;  // names of variables
    bool momentum = false;                // sgd, rmsprop: keeps a velocity
    bool nesterov = false;
  };
  std::vector<Group> groups;
  bool bias_correction = true;
  bool centered = false;
  bool tf_variant = false;
  bool scales_loss =
      false;  // whether kLossScaling of group 0 may differ from 1; false spares a pass over the gradients
  double max_grad_norm = std::numeric_limits<double>::infinity();
};

struct CompileOptions {
  bool training = false;
  std::int64_t gradient_accumulation = 1;
  bool mean_reduction = true;  // over micro-batches; false: sum
  OptimizerSpec optimizer;
  std::vector<std::string> skip_passes;
  std::function<void(double fraction)> progress;
};

// Consumes the graph's structure: afterwards it is the scheduled training graph, as the program runs it.
// State of the optimiser appears as variables "Accl1___<parameter>", "Accl2___<parameter>" and the like.
std::unique_ptr<Program> compile(Graph& graph, const CompileOptions& options, const Backend& backend);

}  // namespace aspen
