#include "tests/support/interpret.h"

#include <cstring>

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
    bool needs_kernel = !op->def().is_alias() && !op->is("assign");
    instructions_.push_back({op.get(), needs_kernel ? backend.create_kernel(kernel_request(*op)) : nullptr});
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
  for (const auto& [op, kernel] : instructions_) {
    if (op->is("assign")) {
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
