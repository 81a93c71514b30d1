#include "aspen/compiler/build_program.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <unordered_map>

#include "aspen/base/log.h"
#include "aspen/compiler/choose_kernels.h"
#include "aspen/compiler/evaluate.h"
#include "aspen/compiler/explain.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/make_kernels.h"
#include "aspen/compiler/memory/plan.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/compiler/placement/overlap_io.h"
#include "aspen/compiler/placement/stages.h"
#include "aspen/compiler/placement/task_cost.h"
#include "aspen/compiler/stochastic_rounding.h"
#include "aspen/compiler/task_waits.h"
#include "aspen/ops/host_call/host_call.h"
#include "aspen/runtime/copy_kernel.h"

namespace aspen {
namespace {

// Above this a `full` or `iota` is written anew by every step: cheaper than keeping it, and its buffer is reused.
constexpr std::size_t kLargestKeptSource = 16 << 10;

// Such a source is written into the variable itself: as fast as a copy, and nothing of that size is kept beside it.
bool only_fills_variables(const Op& op) {
  const auto& users = op.output()->users();
  return !op.output()->is_output() &&
         std::all_of(users.begin(), users.end(), [](const Op* user) { return user->is("assign"); });
}

bool has_half_partials(const Op& op, const CompileOptions& options) {
  if (op.is("dot") || op.def().does_own_graphs()) return options.half_dot_partials;
  return options.half_conv_partials && (op.is("conv") || op.is("conv_input_grad") || op.is("conv_weight_grad"));
}

using Clock = std::chrono::steady_clock;

// Tells who wants to know, and returns milliseconds for the log.
double end_phase(const CompileOptions& options, const char* phase, Clock::time_point start) {
  const auto elapsed = Clock::now() - start;
  if (options.timed) options.timed(phase, elapsed);
  return std::chrono::duration<double, std::milli>(elapsed).count();
}

class ProgramBuilder {
 public:
  ProgramBuilder(const Graph& graph, const CompileOptions& options, const Backend& backend)
      : graph_(graph), options_(options), backend_(backend) {
    if (options.stochastic_rounding) roundings_.emplace(graph);
  }

  std::unique_ptr<Program> run() {
    make_all_kernels();
    auto start = Clock::now();
    MemoryPlan plan = plan_memory(graph_, [this](const Op& op) { return demand(op); });
    log::debug("memory plan: {:.2f} ms", end_phase(options_, "memory plan", start));
    auto program = std::make_unique<Program>();
    program->name = graph_.name();
    describe_interface(plan, *program);
    for (const auto& [op, buffer] : plan.constants) {
      program->constants.push_back({.buffer = buffer, .bytes = std::move(evaluate(*op, {}, backend_)[0])});
    }
    program->devices = std::move(plan.devices);
    for (std::size_t i = 0; i < program->devices.size(); ++i) {
      program->devices[i].budget_bytes = options_.memory_budget.of(static_cast<std::int64_t>(i));
    }
    for (std::size_t i = 0; i < plan.lanes.size(); ++i) {
      program->lanes.push_back({.device = static_cast<std::size_t>(graph_.lanes[i].device),
                                .depth = graph_.lanes[i].depth,
                                .slot_bytes = plan.lanes[i].slot_bytes,
                                .host_slot_bytes = plan.lanes[i].host_slot_bytes});
    }
    std::vector<std::vector<Wait>> waits = find_waits(graph_);
    std::vector<double> nanoseconds = estimate_nanoseconds(graph_);
    for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
      bool is_step = graph_.tasks[i].section == Section::kStep;
      auto& tasks = is_step ? program->step : program->update;
      tasks.push_back(task(graph_.tasks[i], plan.tasks[i], waits[i]));
      tasks.back().nanoseconds = nanoseconds[i];
    }
    log_explanation(graph_, *program);
    return program;
  }

 private:
  // Before anything is planned: only the kernels know their workspaces.
  void make_all_kernels() {
    auto start = Clock::now();
    std::vector<const Op*> ops;
    std::vector<const KernelRequest*> requests;
    for (const auto& op : graph_.ops()) {
      if (!has_kernel(*op)) continue;
      KernelRequest& request = made_[op.get()].request;
      request = kernel_request(*op);
      request.attrs = without_gradient(*op);
      request.half_partials = has_half_partials(*op, options_);
      for (std::size_t i = 0; i < request.inputs.size(); ++i) {
        request.inputs[i].stays = request.inputs[i].present && stays(op->input(i));
      }
      if (roundings_) request.rounding = (*roundings_)[*op];
      ops.push_back(op.get());
      requests.push_back(&request);
    }
    if (options_.choices != nullptr) choose(ops);
    MadeKernels kernels = make_kernels(requests, backend_);
    for (std::size_t i = 0; i < ops.size(); ++i) made_[ops[i]].kernel = taken(kernels.of_request[i], *ops[i]);
    log::debug("kernels: {:.2f} ms, {} for {} ops", end_phase(options_, "kernels", start), kernels.num_made,
               ops.size());
  }

  // Whether it is a weight that the host alone writes, wherever it is read. Within a memory budget nothing is kept
  // twice, on any placement.
  bool stays(const Value* value) const {
    if (options_.training || options_.memory_budget.is_set()) return false;
    const auto brings_weights = [](const Op& op) { return op.is("load") || op.is("send") || op.is("replica_gather"); };
    while (value->producer() != nullptr && brings_weights(*value->producer())) value = value->producer()->input(0);
    return graph_.variable_of(value) != nullptr && !is_assigned_in_step(*value);
  }

  void choose(const std::vector<const Op*>& ops) {
    auto start = Clock::now();
    std::vector<KernelWish> wishes;
    for (const Op* op : ops) wishes.push_back({&made_.at(op).request, op->def().num_products(*op)});
    choose_kernels(wishes, backend_, *options_.choices);
    log::debug("choice of kernels: {:.2f} ms", end_phase(options_, "kernels/choice", start));
  }

  OpDemand demand(const Op& op) const {
    if (is_constant(op)) return {.is_constant = true};
    if (!has_kernel(op)) return {};
    const Kernel& kernel = *made_.at(&op).kernel;
    return {.workspace_bytes = kernel.workspace_bytes(), .copies_inputs = kernel.calls_host() || spans_replicas(op)};
  }

  void describe_interface(const MemoryPlan& plan, Program& program) const {
    for (const auto& input : graph_.inputs()) program.inputs.push_back({.name = input->name(), .type = input->type()});
    for (const Graph::Output& output : graph_.outputs()) {
      program.outputs.push_back({.name = output.name, .type = output.value->type()});
    }
    for (std::size_t i = 0; i < plan.variables.size(); ++i) {
      const Variable& variable = *graph_.variables()[i];
      TensorType type = variable.value->type();
      if (variable.sharded) type.shape = variable.shape.empty() ? Shape{variable.numel} : variable.shape;
      program.variables.push_back({.name = variable.name,
                                   .type = std::move(type),
                                   .places = plan.variables[i],
                                   .initial = variable.initial,
                                   .kind = variable.kind,
                                   .reduced = variable.reduced,
                                   .sharded = variable.sharded,
                                   .gathered = variable.gathered,
                                   .grouping = variable.grouping});
    }
  }

  Task task(const GraphTask& task, TaskPlan& plan, std::vector<Wait>& waits) {
    return {.name = task.name,
            .device = static_cast<std::size_t>(task.device),
            .lane = static_cast<std::size_t>(task.lane),
            .stage = task.stage,
            .cost = task.cost,
            .moves = task.moves,
            .inputs = std::move(plan.inputs),
            .instructions = instructions(plan),
            .outputs = std::move(plan.outputs),
            .waits = std::move(waits)};
  }

  std::vector<Instruction> instructions(TaskPlan& task) {
    std::vector<Instruction> result;
    for (PlannedCall& call : task.calls) {
      Instruction& made = result.emplace_back();
      if (call.is_copy) {
        made.request.op = call.op->name();
        made.kernel = make_copy_kernel(call.outputs[0].bytes);
      } else {
        made.request = std::move(made_[call.op].request);
        made.kernel = std::move(made_[call.op].kernel);
      }
      made.location = describe(call.op->location);
      made.inputs = std::move(call.inputs);
      made.outputs = std::move(call.outputs);
      made.workspace = call.workspace;
      made.is_copy = call.is_copy;
      made.spans_replicas = spans_replicas(*call.op);
      made.is_backward = call.op->backward;
      made.updates_weight = is_update(*call.op);
    }
    return result;
  }

  const Graph& graph_;
  const CompileOptions& options_;
  const Backend& backend_;
  struct Made {
    KernelRequest request;
    std::shared_ptr<const Kernel> kernel;
  };
  std::optional<RandomRoundings> roundings_;
  std::unordered_map<const Op*, Made> made_;
};

}  // namespace

bool is_constant(const Op& op) {
  if (op.def().is_stored()) return true;
  if (!op.def().is_source()) return false;
  return op.output()->type().bytes() <= kLargestKeptSource && !only_fills_variables(op);
}

bool has_kernel(const Op& op) {
  return !is_constant(op) && !op.is("assign") && !op.def().is_alias() && !is_arrival(op);
}

Attrs without_gradient(const Op& op) {
  if (!op.is("host_call")) return op.attrs();
  auto attrs = op.attrs<HostCallAttrs>();
  attrs.gradient = nullptr;
  return Attrs::of(std::move(attrs));
}

std::shared_ptr<const Kernel> taken(const KernelOrError& made, const Op& op) {
  if (made.error == nullptr) return made.kernel;
  try {
    std::rethrow_exception(made.error);
  } catch (const Error&) {
    std::string where = describe(op.location);
    if (where.empty()) throw;
    rethrow_with_context("captured at " + where);
  }
}

bool spans_replicas(const Op& op) { return op.is("replica_gather") || op.is("replica_sum") || op.is("replica_add"); }

std::unique_ptr<Program> build_program(const Graph& graph, const CompileOptions& options, const Backend& backend) {
  return ProgramBuilder(graph, options, backend).run();
}

}  // namespace aspen
