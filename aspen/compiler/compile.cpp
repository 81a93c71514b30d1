#include "aspen/compiler/compile.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "aspen/base/log.h"
#include "aspen/compiler/build_program.h"
#include "aspen/compiler/passes/anchor_tensors.h"
#include "aspen/compiler/passes/fit_budget.h"
#include "aspen/compiler/passes/pipeline.h"
#include "aspen/runtime/packing.h"

namespace aspen {

bool verifies_by_default() {
  const char* wish = std::getenv("ASPEN_VERIFY");
  if (wish != nullptr && *wish != '\0') return std::string_view(wish) != "0";
#ifdef NDEBUG
  return false;
#else
  return true;
#endif
}

std::vector<std::string> skipped_by_default() {
  std::vector<std::string> names;
  const char* wish = std::getenv("ASPEN_SKIP_PASSES");
  std::istringstream list(wish == nullptr ? "" : wish);
  for (std::string name; std::getline(list, name, ',');) {
    const auto& passes = all_passes();
    const bool is_optional = std::any_of(passes.begin(), passes.end(),
                                         [&](const Pass& pass) { return pass.name == name && pass.is_optional; });
    if (is_optional) {
      names.push_back(name);
      continue;
    }
    std::vector<std::string_view> optional;
    for (const Pass& pass : passes) {
      if (pass.is_optional) optional.push_back(pass.name);
    }
    throw UserError("ASPEN_SKIP_PASSES=\"{}\": \"{}\" is no pass that can be left out; those that can: {}.", wish, name,
                    fmt::join(optional, ", "));
  }
  return names;
}

namespace {

// Anchors that are no outputs of the graph: what an update leaves in a variable.
void add_variable_outputs(const Graph& graph, const std::vector<Anchor>& anchors, Program& program) {
  for (const Anchor& anchor : anchors) {
    const Variable* variable = anchored_variable(graph, anchor.tensor);
    if (variable == nullptr) continue;
    auto is_it = [&](const ProgramVariable& candidate) { return candidate.name == variable->name; };
    const auto found = std::find_if(program.variables.begin(), program.variables.end(), is_it);
    if (found->sharded) {
      throw UserError(
          "[anchorTensor] \"{}\": each replica keeps only its own part of tensor \"{}\", which is sharded. Read it "
          "from "
          "the optimiser's state, or do not shard it.",
          anchor.name, anchor.tensor);
    }
    program.variable_outputs.push_back(
        {.output = program.outputs.size(), .variable = static_cast<std::size_t>(found - program.variables.begin())});
    program.outputs.push_back({.name = kAnchorPrefix + anchor.name, .type = found->type});
  }
}

}  // namespace

std::unique_ptr<Program> compile(Graph& graph, const CompileOptions& options, const Backend& backend) {
  if (options.gradient_accumulation < 1 || (!options.training && options.gradient_accumulation != 1)) {
    throw UserError("gradient accumulation is {}; it must be at least 1, and 1 for inference.",
                    options.gradient_accumulation);
  }
  auto passes = options.training ? training_pipeline() : inference_pipeline();
  std::vector<std::string> tensor_names;
  std::vector<StageStart> stage_starts;
  CompileOptions chosen = options;
  const auto start = std::chrono::steady_clock::now();
  run_passes(graph, passes,
             {.options = chosen,
              .backend = &backend,
              .tensor_names = &tensor_names,
              .chosen = &chosen,
              .stage_starts = &stage_starts});
  if (options.timed) options.timed("passes", std::chrono::steady_clock::now() - start);
  auto program = build_program(graph, chosen, backend);
  check_budget(*program);
  program->tensor_names = std::move(tensor_names);
  program->stage_starts = std::move(stage_starts);
  program->training = options.training;
  program->gradient_accumulation = options.gradient_accumulation;
  program->replicas = options.replicas;
  program->input_grouping = options.input_grouping;
  program->checks_floats = options.checks_floats;
  program->adjusts_loss_scaling = options.automatic_loss_scaling.has_value();
  program->has_transfers = !options.holds_inputs;
  add_variable_outputs(graph, options.anchors, *program);
  plan_packing(*program);
  log::debug("compiled {}: {} tasks of a step, {} of an update, {} devices, {} replicas", program->name,
             program->step.size(), program->update.size(), program->devices.size(), program->replicas);
  if (options.progress) options.progress(1);
  return program;
}

}  // namespace aspen
