#include "tests/support/interpret.h"

#include <cstring>

#include "aspen/compiler/ir/body.h"
#include "aspen/ops/control/control.h"

namespace aspen::testing {
namespace {

void run_kernel(const Kernel& kernel, const std::vector<const void*>& inputs, const std::vector<void*>& outputs,
                const StepContext& step) {
  AlignedBytes workspace(kernel.workspace_bytes(), std::byte{0xff});
  kernel.run({.inputs = inputs, .outputs = outputs, .workspace = workspace.data(), .step = &step});
}

HostTensor with_type(const HostTensor& tensor, const TensorType& type) {
  HostTensor result(type);
  if (type.bytes() != tensor.type().bytes()) {
    throw InternalError("alias changes the size: {} to {}", to_string(tensor.type()), to_string(type));
  }
  if (type.bytes() > 0) std::memcpy(result.data(), tensor.data(), type.bytes());
  return result;
}

// Random ops draw by turn, and by call.
StepContext with_number(StepContext step, std::uint64_t number) {
  std::uint64_t z = step.seed + (number + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  step.seed = z ^ (z >> 31);
  return step;
}

HostTensor row_of(const HostTensor& stack, std::int64_t row) {
  TensorType type = stack.type();
  type.shape.erase(type.shape.begin());
  HostTensor result(type);
  const auto* rows = static_cast<const std::byte*>(stack.data());
  if (type.bytes() > 0) std::memcpy(result.data(), rows + static_cast<std::size_t>(row) * type.bytes(), type.bytes());
  return result;
}

void set_row(HostTensor& stack, std::int64_t row, const HostTensor& value) {
  const std::size_t bytes = value.type().bytes();
  auto* rows = static_cast<std::byte*>(stack.data());
  if (bytes > 0) std::memcpy(rows + static_cast<std::size_t>(row) * bytes, value.data(), bytes);
}

}  // namespace

KernelRequest kernel_request(const Op& op) {
  KernelRequest request{.op = op.name(), .attrs = op.attrs()};
  for (const Value* input : op.inputs()) {
    request.inputs.push_back(input != nullptr ? KernelInput{input->type(), true} : KernelInput{{}, false});
  }
  for (const Value* output : op.outputs()) request.outputs.push_back(output->type());
  return request;
}

Interpreter::Interpreter(const Graph& graph, const Backend& backend) : graph_(graph) {
  for (const auto& op : graph.ops()) {
    Instruction& instruction = instructions_.emplace_back();
    instruction.op = op.get();
    for (const Graph* body : bodies_of(*op)) {
      instruction.bodies.push_back(std::make_unique<Interpreter>(*body, backend));
    }
    bool needs_kernel = !op->def().is_alias() && !op->is("assign") && instruction.bodies.empty();
    if (needs_kernel) instruction.kernel = backend.create_kernel(kernel_request(*op));
  }
}

Interpretation Interpreter::operator()(Tensors known, const StepContext& step) const {
  Interpretation result{.values = std::move(known)};
  Tensors& values = result.values;
  for (const auto& variable : graph_.variables()) {
    const TensorType& type = variable->value->type();
    auto filled = std::vector<double>(type.numel(), variable->initial);
    values.try_emplace(variable->value.get(), type, filled);
    result.variables[variable->name] = values.at(variable->value.get());
  }
  for (const Instruction& instruction : instructions_) {
    const auto& [op, kernel, bodies] = instruction;
    if (!bodies.empty()) {
      run_bodies(instruction, values, step);
    } else if (op->is("assign")) {
      result.variables[graph_.variable_of(op->input(0))->name] = values.at(op->input(1));
    } else if (op->def().is_alias()) {
      values[op->output()] = with_type(values.at(op->input(0)), op->output()->type());
    } else {
      std::vector<const void*> inputs;
      std::vector<void*> outputs;
      for (const Value* input : op->inputs()) inputs.push_back(input != nullptr ? values.at(input).data() : nullptr);
      for (const Value* output : op->outputs()) {
        outputs.push_back((values[output] = poisoned(output->type())).data());
      }
      run_kernel(*kernel, inputs, outputs, step);
    }
  }
  return result;
}

std::vector<HostTensor> Interpreter::results(const std::vector<HostTensor>& inputs, const StepContext& step) const {
  Tensors known;
  for (std::size_t i = 0; i < inputs.size(); ++i) known.emplace(graph_.inputs()[i].get(), inputs[i]);
  const Interpretation run = (*this)(std::move(known), step);
  std::vector<HostTensor> results;
  for (const Graph::Output& output : graph_.outputs()) results.push_back(run.values.at(output.value));
  return results;
}

std::vector<HostTensor> Interpreter::run_loop(const Op& op, const Interpreter& body, std::vector<HostTensor> operands,
                                              const StepContext& step) {
  const auto& loop = op.attrs<LoopAttrs>();
  const auto carried = static_cast<std::size_t>(loop.carried), sliced = static_cast<std::size_t>(loop.sliced);
  std::vector<HostTensor> results(operands.begin(), operands.begin() + loop.carried);
  for (std::size_t i = carried; i < op.num_outputs(); ++i) results.emplace_back(op.output(i)->type());
  for (std::int64_t i = 0; i < loop.count; ++i) {
    const std::int64_t turn = loop.reverse ? loop.count - 1 - i : i;
    std::vector<HostTensor> inputs = operands;
    for (std::size_t k = 0; k < carried; ++k) inputs[k] = results[k];
    for (std::size_t k = carried; k < carried + sliced; ++k) inputs[k] = row_of(operands[k], turn);
    std::vector<HostTensor> returned = body.results(inputs, with_number(step, static_cast<std::uint64_t>(turn)));
    for (std::size_t k = 0; k < carried; ++k) results[k] = returned[k];
    for (std::size_t k = carried; k < returned.size(); ++k) set_row(results[k], turn, returned[k]);
  }
  return results;
}

void Interpreter::run_bodies(const Instruction& instruction, Tensors& values, const StepContext& step) {
  const Op& op = *instruction.op;
  std::vector<HostTensor> operands, results;
  for (const Value* input : op.inputs()) operands.push_back(values.at(input));
  if (op.is("loop")) {
    results = run_loop(op, *instruction.bodies[0], std::move(operands), step);
  } else if (op.is("cond")) {
    const bool is_met = operands[0].numbers()[0] != 0;
    operands.erase(operands.begin());
    results = instruction.bodies[is_met ? 0 : 1]->results(operands, step);
  } else if (op.is("group")) {
    results = instruction.bodies[0]->results(operands, step);
  } else {
    const auto stream = static_cast<std::uint64_t>(op.attrs<CallAttrs>().stream);
    results = instruction.bodies[0]->results(operands, with_number(step, stream));
  }
  for (std::size_t i = 0; i < results.size(); ++i) values[op.output(i)] = std::move(results[i]);
}

namespace {

// A graph of one op, with tensors bound to its inputs.
struct OneOp {
  OneOp(const OpDef& def, const std::vector<HostTensor>& inputs, const Attrs& attrs) {
    for (const HostTensor& input : inputs) operands.push_back(bind(input));
    op = graph.add_op(def, operands, attrs);
  }
  Value* bind(const HostTensor& tensor) {
    if (tensor == HostTensor()) return nullptr;
    Value* value = graph.add_input("", tensor.type());
    known.emplace(value, tensor);
    return value;
  }

  Graph graph;
  Tensors known;
  std::vector<Value*> operands;
  Op* op = nullptr;
};

}  // namespace

std::vector<HostTensor> run_op(const Backend& backend, std::string_view name, const std::vector<HostTensor>& inputs,
                               const Attrs& attrs, const StepContext& step) {
  OneOp one(op_registry().find(name), inputs, attrs);
  Interpretation result = Interpreter(one.graph, backend)(std::move(one.known), step);
  std::vector<HostTensor> outputs;
  for (const Value* output : one.op->outputs()) outputs.push_back(result.values.at(output));
  return outputs;
}

std::vector<HostTensor> run_gradient(const Backend& backend, std::string_view name,
                                     const std::vector<HostTensor>& inputs,
                                     const std::vector<HostTensor>& output_gradients, const Attrs& attrs,
                                     const StepContext& step) {
  OneOp one(op_registry().find(name), inputs, attrs);
  std::vector<Value*> arriving;
  for (const HostTensor& gradient : output_gradients) arriving.push_back(one.bind(gradient));
  std::vector<bool> needed;
  for (const Value* operand : one.operands) needed.push_back(operand != nullptr && is_floating(operand->dtype()));
  Builder b(one.graph);
  GradientContext context(b, *one.op, arriving, needed);
  one.op->def().gradient(context);
  Interpretation result = Interpreter(one.graph, backend)(std::move(one.known), step);
  std::vector<HostTensor> gradients;
  for (std::size_t i = 0; i < one.operands.size(); ++i) {
    switch (context.flow(i)) {
      case GradientContext::Flow::kGradient: gradients.push_back(result.values.at(context.gradient(i))); break;
      case GradientContext::Flow::kZero: gradients.emplace_back(one.operands[i]->type()); break;
      case GradientContext::Flow::kNone: gradients.emplace_back(); break;
      case GradientContext::Flow::kUnsaid:
        if (needed[i]) throw InternalError("the gradient rule of {} says nothing about input {}", name, i);
        gradients.emplace_back();
    }
  }
  return gradients;
}

}  // namespace aspen::testing
