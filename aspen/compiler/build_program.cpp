#include "aspen/compiler/build_program.h"

#include <unordered_map>

#include "aspen/compiler/evaluate.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/memory/plan.h"
#include "aspen/runtime/copy_kernel.h"

namespace aspen {
namespace {

// Above this a `full` or `iota` is written anew by every step: cheaper than keeping it, and its buffer is reused.
constexpr std::size_t kLargestKeptSource = 16 << 10;

bool is_constant(const Op& op) {
  if (op.is("constant")) return true;
  return (op.is("full") || op.is("iota")) && op.output()->type().bytes() <= kLargestKeptSource;
}

std::unique_ptr<Kernel> make_kernel(const Op& op, const Backend& backend) {
  try {
    return backend.create_kernel(kernel_request(op));
  } catch (const Error&) {
    std::string where = describe(op.location);
    if (where.empty()) throw;
    rethrow_with_context("captured at " + where);
  }
}

class ProgramBuilder {
 public:
  ProgramBuilder(const Graph& graph, const Backend& backend) : graph_(graph), backend_(backend) {}

  std::unique_ptr<Program> run() {
    MemoryPlan plan = plan_memory(graph_, [this](const Op& op) { return demand(op); });
    auto program = std::make_unique<Program>();
    program->name = graph_.name();
    describe_interface(plan, *program);
    for (const auto& [op, buffer] : plan.constants) {
      program->constants.push_back({.buffer = buffer, .bytes = std::move(evaluate(*op, {}, backend_)[0])});
    }
    program->step = instructions(plan.step);
    program->update = instructions(plan.update);
    program->variable_bytes = plan.variable_bytes;
    program->constant_bytes = plan.constant_bytes;
    program->scratch_bytes = plan.scratch_bytes;
    return program;
  }

 private:
  // Makes the kernel when the planner first asks for an op: only the kernel knows its workspace.
  OpDemand demand(const Op& op) {
    if (is_constant(op)) return {.is_constant = true};
    if (op.is("assign") || op.def().is_alias()) return {};
    auto kernel = make_kernel(op, backend_);
    OpDemand result{.workspace_bytes = kernel->workspace_bytes()};
    kernels_.emplace(&op, std::move(kernel));
    return result;
  }

  void describe_interface(const MemoryPlan& plan, Program& program) const {
    for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
      const Value& input = *graph_.inputs()[i];
      program.inputs.push_back({.name = input.name(), .type = input.type(), .buffer = plan.inputs[i]});
    }
    for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
      const Graph::Output& output = graph_.outputs()[i];
      program.outputs.push_back({.name = output.name, .type = output.value->type(), .buffer = plan.outputs[i]});
    }
    for (std::size_t i = 0; i < plan.variables.size(); ++i) {
      const Variable& variable = *graph_.variables()[i];
      program.variables.push_back({.name = variable.name,
                                   .type = variable.value->type(),
                                   .buffer = plan.variables[i],
                                   .initial = variable.initial,
                                   .accumulator = variable.kind == VariableKind::kAccumulator});
    }
  }

  std::vector<Instruction> instructions(SectionPlan& section) {
    std::vector<Instruction> result;
    for (PlannedCall& call : section.calls) {
      result.push_back({.op = call.op->name(),
                        .location = describe(call.op->location),
                        .kernel = call.is_copy ? make_copy_kernel(call.outputs[0].bytes) : std::move(kernels_[call.op]),
                        .inputs = std::move(call.inputs),
                        .outputs = std::move(call.outputs),
                        .workspace = call.workspace});
    }
    return result;
  }

  const Graph& graph_;
  const Backend& backend_;
  std::unordered_map<const Op*, std::unique_ptr<Kernel>> kernels_;
};

}  // namespace

std::unique_ptr<Program> build_program(const Graph& graph, const Backend& backend) {
  return ProgramBuilder(graph, backend).run();
}

}  // namespace aspen
