#include "aspen/compiler/body_program.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "aspen/compiler/build_program.h"
#include "aspen/compiler/evaluate.h"
#include "aspen/compiler/ir/body.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/make_kernels.h"
#include "aspen/compiler/memory/offsets.h"
#include "aspen/compiler/memory/plan.h"
#include "aspen/compiler/passes/schedule.h"
#include "aspen/compiler/stochastic_rounding.h"
#include "aspen/runtime/copy_kernel.h"

namespace aspen {
namespace {

// The body as the memory plan takes graphs: one task, in which arguments are variables.
std::unique_ptr<Graph> with_variables(const Graph& body, std::size_t carried) {
  auto graph = std::make_unique<Graph>(body.name());
  GraphCopier copier(*graph);
  std::vector<Variable*> arguments;
  const auto add_argument = [&](const TensorType& type) {
    arguments.push_back(graph->add_variable(std::to_string(arguments.size()), VariableKind::kBuffer, type));
    return arguments.back()->value.get();
  };
  for (const auto& input : body.inputs()) copier.map(input.get(), add_argument(input->type()));
  for (const auto& op : body.ops()) {
    Op* copy = copier.copy(*op);
    copy->backward = false;  // all of it runs in one go
    copy->placement = {};
  }
  const OpDef& assign = op_registry().find("assign");
  for (std::size_t i = 0; i < body.outputs().size(); ++i) {
    const Value* result = body.outputs()[i].value;
    Value* place = i < carried ? arguments[i]->value.get() : add_argument(result->type());
    graph->add_op(assign, {place, copier[result]}, {});
  }
  graph->lanes.emplace_back();
  graph->tasks.push_back({.name = body.name()});
  for (const auto& op : graph->ops()) op->task = 0;
  return graph;
}

// The kernels of the ops, and what they were asked for.
class BodyKernels {
 public:
  BodyKernels(const Graph& graph, const KernelRequest& owner, const Backend& backend) {
    std::optional<RandomRoundings> roundings;
    if (owner.rounding.stream != 0) roundings.emplace(graph);
    std::vector<const Op*> ops;
    std::vector<KernelRequest> requests;
    for (const auto& op : graph.ops()) {
      if (!has_kernel(*op)) continue;
      KernelRequest request = kernel_request(*op);
      request.attrs = without_gradient(*op);
      request.half_partials = owner.half_partials && (op->is("dot") || op->def().does_own_graphs());
      if (roundings) request.rounding = rounding_in(owner.rounding, (*roundings)[*op]);
      ops.push_back(op.get());
      requests.push_back(std::move(request));
    }
    std::vector<const KernelRequest*> wanted;
    for (const KernelRequest& request : requests) wanted.push_back(&request);
    const MadeKernels made = make_kernels(wanted, backend);
    for (std::size_t i = 0; i < ops.size(); ++i) kernels_.emplace(ops[i], taken(made.of_request[i], *ops[i]));
  }

  OpDemand demand(const Op& op) const {
    if (is_constant(op)) return {.is_constant = true};
    auto found = kernels_.find(&op);
    return {.workspace_bytes = found == kernels_.end() ? 0 : found->second->workspace_bytes()};
  }
  const std::shared_ptr<const Kernel>& operator[](const Op& op) const { return kernels_.at(&op); }

 private:
  // Streams of a body are told from those of others that are equal by the stream of their owner.
  static Rounding rounding_in(const Rounding& owner, Rounding inner) {
    if (inner.stream != 0) inner.stream = (inner.stream ^ (owner.stream >> 1)) | 1;
    return inner;
  }

  std::unordered_map<const Op*, std::shared_ptr<const Kernel>> kernels_;
};

}  // namespace

BodyProgram::BodyProgram(const Graph& body, std::size_t carried, const KernelRequest& owner, const Backend& backend) {
  std::unique_ptr<Graph> graph = with_variables(body, carried);
  schedule(*graph, {.options = CompileOptions{}});
  const BodyKernels kernels(*graph, owner, backend);
  MemoryPlan plan = plan_memory(*graph, [&](const Op& op) { return kernels.demand(op); });
  std::vector<BufferRef> arguments;
  for (std::size_t i = 0; i < graph->variables().size(); ++i) {
    arguments.push_back(plan.variables[i].front());
    argument_bytes_.push_back(arguments.back().bytes);
  }
  read_.of_argument.resize(arguments.size());
  written_.of_argument.resize(arguments.size());
  add_constants(plan, backend);
  for (const PlannedCall& planned : plan.tasks[0].calls) {
    Call& call = calls_.emplace_back();
    call.kernel = planned.is_copy ? make_copy_kernel(planned.outputs[0].bytes) : kernels[*planned.op];
    call.first_input = read_.count;
    call.num_inputs = planned.inputs.size();
    call.first_output = written_.count;
    call.num_outputs = planned.outputs.size();
    call.workspace = planned.workspace.offset;
    call.location = describe(planned.op->location);
    for (const BufferRef& place : planned.inputs) add_pointer(read_, place, arguments);
    for (const BufferRef& place : planned.outputs) add_pointer(written_, place, arguments);
  }
  outputs_at_ = aligned(read_.count * sizeof(void*));
  scratch_at_ = outputs_at_ + aligned(written_.count * sizeof(void*));
  workspace_bytes_ = scratch_at_ + plan.devices[0].scratch_bytes;
}

void BodyProgram::add_constants(const MemoryPlan& plan, const Backend& backend) {
  constants_ = ArenaMemory(plan.devices[0].constant_bytes, "constants of a loop or branch");
  for (const auto& [op, place] : plan.constants) {
    const std::vector<std::byte> bytes = std::move(evaluate(*op, {}, backend)[0]);
    if (!bytes.empty()) std::memcpy(constants_.data() + place.offset, bytes.data(), bytes.size());
  }
}

void BodyProgram::add_pointer(Pointers& pointers, const BufferRef& place, const std::vector<BufferRef>& arguments) {
  const std::size_t pointer = pointers.count++;
  if (place.absent) return;
  switch (place.arena) {
    case Arena::kScratch: pointers.to_scratch.push_back({pointer, place.offset}); return;
    case Arena::kConstants: pointers.to_constants.push_back({pointer, place.offset}); return;
    case Arena::kVariables: break;
    default: throw InternalError("a body reads or writes beyond its arguments");
  }
  // Empty ones lie where the next one begins; no matter which of them an empty operand is.
  const auto found = std::find_if(arguments.begin(), arguments.end(), [&](const BufferRef& argument) {
    return argument.offset == place.offset && argument.bytes == place.bytes;
  });
  if (found == arguments.end()) throw InternalError("a body works on a part of an argument");
  pointers.of_argument[static_cast<std::size_t>(found - arguments.begin())].push_back(pointer);
}

bool BodyProgram::calls_host() const {
  return std::any_of(calls_.begin(), calls_.end(), [](const Call& call) { return call.kernel->calls_host(); });
}

void BodyProgram::reserve(std::size_t num_threads) const {
  for (const Call& call : calls_) call.kernel->reserve(num_threads);
}

void BodyProgram::begin(std::byte* workspace) const {
  std::byte* scratch = workspace + scratch_at_;
  std::fill_n(inputs(workspace), read_.count, nullptr);  // of operands left out
  for (const Fixed& fixed : read_.to_constants) inputs(workspace)[fixed.pointer] = constants_.data() + fixed.offset;
  for (const Fixed& fixed : read_.to_scratch) inputs(workspace)[fixed.pointer] = scratch + fixed.offset;
  for (const Fixed& fixed : written_.to_scratch) outputs(workspace)[fixed.pointer] = scratch + fixed.offset;
}

void BodyProgram::bind(std::byte* workspace, std::size_t argument, std::byte* memory) const {
  for (std::size_t pointer : read_.of_argument[argument]) inputs(workspace)[pointer] = memory;
  for (std::size_t pointer : written_.of_argument[argument]) outputs(workspace)[pointer] = memory;
}

void BodyProgram::run(std::byte* workspace, const StepContext& step) const {
  const Call* current = nullptr;
  try {
    for (const Call& call : calls_) {
      current = &call;
      call.kernel->run({.inputs = {inputs(workspace) + call.first_input, call.num_inputs},
                        .outputs = {outputs(workspace) + call.first_output, call.num_outputs},
                        .workspace = workspace + scratch_at_ + call.workspace,
                        .step = &step});
    }
  } catch (const std::exception&) {
    if (current->location.empty()) throw;
    rethrow_with_context("captured at " + current->location);
  }
}

}  // namespace aspen
