#include "aspen/compiler/compile.h"

#include <cstdlib>
#include <string_view>

#include "aspen/compiler/build_program.h"
#include "aspen/compiler/passes/pipeline.h"

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

std::unique_ptr<Program> compile(Graph& graph, const CompileOptions& options, const Backend& backend) {
  if (options.gradient_accumulation < 1 || (!options.training && options.gradient_accumulation != 1)) {
    throw UserError("gradient accumulation is {}; it must be at least 1, and 1 for inference.",
                    options.gradient_accumulation);
  }
  auto passes = options.training ? training_pipeline() : inference_pipeline();
  run_passes(graph, passes, {.options = options, .backend = &backend});
  auto program = build_program(graph, backend);
  program->training = options.training;
  program->gradient_accumulation = options.gradient_accumulation;
  program->replicas = options.replicas;
  program->input_grouping = options.input_grouping;
  program->checks_floats = options.checks_floats;
  program->has_transfers = !options.holds_inputs;
  if (options.progress) options.progress(1);
  return program;
}

}  // namespace aspen
