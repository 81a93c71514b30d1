#include "poptorch/capture/custom_op.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "aspen/ops/build.h"
#include "aspen/ops/gradient/gradient.h"
#include "aspen/ops/host_call/host_call.h"
#include "poptorch/capture/dispatch_scope.h"
#include "poptorch/capture/host_data.h"
#include "poptorch/capture/host_work.h"
#include "poptorch/capture/stored_work.h"

namespace poptorch {
namespace {

using Tensors = std::vector<at::Tensor>;

// One call of an operator in a model.
struct CustomCall {
  std::shared_ptr<const CustomOp> op;
  std::string title;
  CustomOpAttributes attributes;
  std::vector<Wire> inputs, outputs;
};

struct StoredAttribute {
  std::string name;
  CustomOpAttributes::Value value;
};

template <class Stream>
void visit(Stream& stream, StoredAttribute& attribute) {
  enum class Kind : std::uint8_t { kInteger, kReal, kText, kIntegers, kReals, kTexts };
  static_assert(std::variant_size_v<CustomOpAttributes::Value> == 6);
  auto kind = static_cast<Kind>(attribute.value.index());
  stream(attribute.name);
  stream.choice(kind, Kind::kTexts);
  if constexpr (Stream::kReads) {
    switch (kind) {
      case Kind::kInteger: attribute.value = std::int64_t{0}; break;
      case Kind::kReal: attribute.value = 0.0f; break;
      case Kind::kText: attribute.value = std::string(); break;
      case Kind::kIntegers: attribute.value = std::vector<std::int64_t>(); break;
      case Kind::kReals: attribute.value = std::vector<float>(); break;
      case Kind::kTexts: attribute.value = std::vector<std::string>(); break;
    }
  }
  std::visit([&](auto& value) { stream(value); }, attribute.value);
}

struct StoredCustomCall {
  std::string name, domain;
  std::int64_t version = 1;
  std::vector<StoredAttribute> attributes;
  std::vector<Wire> inputs, outputs;
};

template <class Stream>
void visit(Stream& stream, StoredCustomCall& call) {
  stream(call.name, call.domain, call.version, call.attributes, call.inputs, call.outputs);
}

class CustomKernel final : public TypedFunction {
 public:
  explicit CustomKernel(std::shared_ptr<const CustomCall> call) : call_(std::move(call)) {}
  std::string name() const override { return call_->title; }
  std::vector<aspen::TensorType> input_types() const override { return types_of(call_->inputs); }
  std::vector<aspen::TensorType> output_types() const override { return types_of(call_->outputs); }

  std::optional<std::vector<std::byte>> stored() const override {
    StoredCustomCall stored{call_->op->name, call_->op->domain, call_->op->version, {}, call_->inputs, call_->outputs};
    for (const auto& [name, value] : call_->attributes.values()) stored.attributes.push_back({name, value});
    return stored_custom_op(bytes_of(stored));
  }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs) override {
    naming(call_->title, "", [&] {
      const HostScope host;
      Tensors given, made;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        given.push_back(from_graph_bytes(inputs[i], call_->inputs[i].type, call_->inputs[i].torch_type));
      }
      for (std::size_t i = 0; i < outputs.size(); ++i) made.push_back(result(i, outputs[i]));
      call_->op->kernel(given, made, call_->attributes);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (made[i].data_ptr() != outputs[i]) store(made[i], call_->outputs[i].type, outputs[i]);
      }
    });
  }

 private:
  // In the memory of the graph, unless that holds the type in a narrower form.
  at::Tensor result(std::size_t i, void* memory) const {
    const Wire& wire = call_->outputs[i];
    if (host_dtype(wire.type.dtype) != wire.torch_type) return at::empty(wire.type.shape, wire.torch_type);
    return at::from_blob(memory, wire.type.shape, wire.torch_type);
  }

  std::shared_ptr<const CustomCall> call_;
};

// Records the gradient the operator brings. The op it belongs to has the results as inputs, then the operands.
class CustomOpRule final : public aspen::CustomGradient {
 public:
  CustomOpRule(Recorder& recorder, std::shared_ptr<const CustomCall> call)
      : recorder_(recorder), call_(std::move(call)) {}
  std::string name() const override { return call_->title; }

  std::vector<aspen::Value*> run(const aspen::Op& op, const std::vector<aspen::Value*>& arriving) override {
    if (call_->op->gradient == nullptr) {
      throw aspen::UserError(
          "[{}] has no gradient, and the loss wants one through it. Give the operator one (CustomOp::gradient), or "
          "detach its inputs.{}",
          call_->title, op.location.source.empty() ? "" : "\n  captured at " + op.location.source);
    }
    std::vector<aspen::Value*> gradients(op.num_inputs(), nullptr);
    recorder_.record_backward(op, [&] {
      const CustomOpGradient given = operands(op, arriving);
      const Tensors answers = call_->op->gradient(given);
      if (answers.size() != given.inputs.size()) {
        throw aspen::UserError("[{}] the gradient returned {} tensors; expected one for each of {} inputs.",
                               call_->title, answers.size(), given.inputs.size());
      }
      for (std::size_t i = 0; i < answers.size(); ++i) {
        const std::size_t input = given.outputs.size() + i;
        gradients[input] = value_of(answers[i], i, op.input(input)->type());
      }
    });
    return gradients;
  }

 private:
  CustomOpGradient operands(const aspen::Op& op, const std::vector<aspen::Value*>& arriving) {
    CustomOpGradient given;
    given.attributes = call_->attributes;
    const std::size_t results = call_->outputs.size();
    for (std::size_t i = 0; i < results; ++i) {
      aspen::Value* value = op.input(i);
      aspen::Value* gradient = arriving[i] != nullptr ? arriving[i] : aspen::build::full_like(recorder_.b, value, 0);
      given.outputs.push_back(recorder_.wrap(value, call_->outputs[i].torch_type));
      given.output_gradients.push_back(recorder_.wrap(gradient, call_->outputs[i].torch_type));
    }
    for (std::size_t i = 0; i < call_->inputs.size(); ++i) {
      given.inputs.push_back(recorder_.wrap(op.input(results + i), call_->inputs[i].torch_type));
    }
    return given;
  }

  aspen::Value* value_of(const at::Tensor& gradient, std::size_t input, const aspen::TensorType& wanted) {
    if (!gradient.defined() || !aspen::is_floating(wanted.dtype)) return nullptr;
    if (shape_of(gradient) != wanted.shape) {
      throw aspen::UserError("[{}] the gradient by input {} has shape {}; expected that of the input, {}.",
                             call_->title, input, aspen::to_string(shape_of(gradient)), aspen::to_string(wanted.shape));
    }
    return aspen::build::cast(recorder_.b, recorder_.value_of(gradient), wanted.dtype);
  }

  Recorder& recorder_;
  std::shared_ptr<const CustomCall> call_;
};

std::vector<TensorSpec> specs_of(const Tensors& tensors) {
  std::vector<TensorSpec> specs;
  for (const at::Tensor& tensor : tensors) specs.push_back({tensor.sizes().vec(), tensor.scalar_type()});
  return specs;
}

std::string describe(const std::vector<TensorSpec>& specs) {
  std::string text;
  for (const TensorSpec& spec : specs) {
    text += (text.empty() ? "" : ", ") + std::string(c10::toString(spec.dtype)) + aspen::to_string(spec.shape);
  }
  return "(" + text + ")";
}

void check_examples(const CustomCall& call, const Tensors& inputs, const Tensors& examples) {
  if (call.op->kernel == nullptr) throw aspen::UserError("[{}] was registered without a kernel.", call.title);
  if (call.op->shapes == nullptr) return;
  const auto given = specs_of(inputs), expected = specs_of(examples);
  const auto shapes = naming(call.title, "", [&] { return call.op->shapes(given, call.attributes); });
  if (shapes == expected) return;
  throw aspen::UserError("[{}] gives {} for inputs {}, but the example outputs are {}.", call.title, describe(shapes),
                         describe(given), describe(expected));
}

}  // namespace

std::shared_ptr<aspen::HostFunction> restored_custom_op(const std::string& title, std::span<const std::byte> stored) {
  auto read = from_bytes<StoredCustomCall>(stored);
  CustomOpAttributes::Map attributes;
  for (StoredAttribute& attribute : read.attributes) attributes.emplace(attribute.name, std::move(attribute.value));
  return std::make_shared<CustomKernel>(std::make_shared<const CustomCall>(
      CustomCall{find_custom_op(title, read.name, read.domain, read.version), title,
                 CustomOpAttributes(std::move(attributes)), std::move(read.inputs), std::move(read.outputs)}));
}

Tensors record_custom_op(Recorder& recorder, const std::shared_ptr<const CustomOp>& op, const std::string& title,
                         const Tensors& inputs, const Tensors& examples, const CustomOpAttributes& attributes) {
  const auto call =
      std::make_shared<const CustomCall>(CustomCall{op, title, attributes, wires_of(inputs), wires_of(examples)});
  return recorder.record(title, inputs, [&] {
    check_examples(*call, inputs, examples);
    std::vector<aspen::Value*> values;
    for (const at::Tensor& input : inputs) values.push_back(recorder.value_of(input));
    aspen::HostCallAttrs kernel;
    kernel.function = std::make_shared<CustomKernel>(call);
    kernel.outputs = type_list(call->outputs);
    aspen::Op* node = recorder.b.emit("host_call", values, kernel);
    const bool is_differentiated = recorder.training() && !recorder.is_in_backward() && !call->outputs.empty();
    if (!is_differentiated) return wrap_outputs(recorder, node, call->outputs);
    aspen::CustomGradientAttrs gradient;
    gradient.outputs = static_cast<std::int64_t>(call->outputs.size());
    gradient.function = std::make_shared<CustomOpRule>(recorder, call);
    std::vector<aspen::Value*> operands;
    for (std::size_t i = 0; i < call->outputs.size(); ++i) operands.push_back(node->output(i));
    operands.insert(operands.end(), values.begin(), values.end());
    return wrap_outputs(recorder, recorder.b.emit("custom_gradient", operands, gradient), call->outputs);
  });
}

}  // namespace poptorch
