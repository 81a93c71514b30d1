#include "aspen/compiler/compile.h"

#include "aspen/compiler/build_program.h"
#include "aspen/compiler/passes/pipeline.h"

namespace aspen {

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
  if (options.progress) options.progress(1);
  return program;
}

}  // namespace aspen
