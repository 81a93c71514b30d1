#include "poptorch/capture/host_call.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cstring>

#include "aspen/base/log.h"
#include "aspen/ops/host_call/host_call.h"
#include "poptorch/capture/boxed_op.h"
#include "poptorch/capture/dispatch.h"
#include "poptorch/capture/dispatch_scope.h"
#include "poptorch/capture/host_data.h"

namespace poptorch {
namespace {

using aspen::TensorType;
using c10::ScalarType;

// A tensor on the way between the graph and torch.
struct Wire {
  TensorType type;
  ScalarType torch_type;
};

void store(const at::Tensor& tensor, const TensorType& type, void* into) {
  if (tensor.sizes() != c10::IntArrayRef(type.shape)) {
    throw aspen::UserError(
        "a result has shape {} where {} was expected from its arguments' shapes; ops with results "
        "of varying shape cannot be part of a model.",
        aspen::to_string(shape_of(tensor)), aspen::to_string(type.shape));
  }
  const at::Tensor exact = tensor.detach().to(host_dtype(type.dtype)).contiguous();
  std::memcpy(into, exact.data_ptr(), type.bytes());
}

// What forward and backward share. Buffers are read as tensors without copying where the types agree.
class HostOp {
 public:
  HostOp(BoxedOp op, std::vector<Wire> inputs, std::vector<Wire> outputs, std::vector<std::size_t> results)
      : op(std::move(op)), inputs(std::move(inputs)), outputs(std::move(outputs)), results(std::move(results)) {}

  std::vector<at::Tensor> read_inputs(std::span<const void* const> buffers) const {
    std::vector<at::Tensor> tensors;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      tensors.push_back(from_graph_bytes(buffers[i], inputs[i].type, inputs[i].torch_type));
    }
    return tensors;
  }

  const BoxedOp op;
  const std::vector<Wire> inputs, outputs;
  const std::vector<std::size_t> results;  // of the op's flat results, those that are outputs
};

ForeignLanguage& foreign_language() {
  static ForeignLanguage language;
  return language;
}

std::string take_foreign_error() { return foreign_language().take_error ? foreign_language().take_error() : ""; }

bool is_foreign(const c10::OperatorHandle& op) { return !op.operator_name().name.starts_with("aten::"); }

// Runs what torch does for an op; whatever it throws is an error of ours that names the op. Errors of torch lose their
// C++ stack.
template <class F>
auto naming(const c10::OperatorHandle& op, const std::string& where, const F& run) {
  try {
    return run();
  } catch (const aspen::Error& error) {
    const std::string text = error.what();
    throw aspen::UserError("{}{}{}", text.starts_with("[") ? "" : "[" + full_name(op) + "] ", text, where);
  } catch (const c10::Error& error) {
    throw aspen::UserError("[{}] {}{}", full_name(op), error.what_without_backtrace(), where);
  } catch (const std::exception& error) {
    const std::string text = take_foreign_error();
    throw aspen::UserError("[{}] {}{}", full_name(op), text.empty() ? error.what() : text, where);
  }
}

// The same while the program runs, on a thread the language of the model may never have seen.
template <class F>
void naming_on_worker(const c10::OperatorHandle& op, const F& run) {
  std::shared_ptr<void> thread;
  if (is_foreign(op) && foreign_language().keep_thread) thread = foreign_language().keep_thread();
  naming(op, "", run);
}

BoxedOp::Results call_torch(const BoxedOp& op, const std::vector<at::Tensor>& inputs) {
  return op.call(inputs, c10::Device(c10::DeviceType::CPU));
}

class ForwardCall final : public aspen::HostFunction {
 public:
  explicit ForwardCall(std::shared_ptr<const HostOp> host_op) : host_op_(std::move(host_op)) {}
  std::string name() const override { return full_name(host_op_->op.op()); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs) override {
    naming_on_worker(host_op_->op.op(), [&] {
      HostScope host;
      const auto results = call_torch(host_op_->op, host_op_->read_inputs(inputs));
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        store(results.flat[host_op_->results[i]], host_op_->outputs[i].type, outputs[i]);
      }
    });
  }

 private:
  std::shared_ptr<const HostOp> host_op_;
};

// Computes the op again under torch's autograd and asks it for the gradients.
class BackwardCall final : public aspen::HostFunction {
 public:
  BackwardCall(std::shared_ptr<const HostOp> host_op, std::vector<std::int64_t> differentiable)
      : host_op_(std::move(host_op)), differentiable_(std::move(differentiable)) {}
  std::string name() const override { return full_name(host_op_->op.op()) + " backward"; }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs) override {
    naming_on_worker(host_op_->op.op(), [&] { differentiate(inputs, outputs); });
  }

 private:
  void differentiate(std::span<const void* const> inputs, std::span<void* const> outputs) const {
    AutogradScope autograd;
    c10::AutoGradMode grad_mode(true);
    std::vector<at::Tensor> tensors = host_op_->read_inputs(inputs);
    std::vector<at::Tensor> wanted;
    for (std::int64_t i : differentiable_) {
      tensors[i] = tensors[i].detach().requires_grad_(true);
      wanted.push_back(tensors[i]);
    }
    const auto results = call_torch(host_op_->op, tensors);
    std::vector<at::Tensor> roots, seeds;
    for (std::size_t i = 0; i < host_op_->outputs.size(); ++i) {
      const at::Tensor& result = results.flat[host_op_->results[i]];
      const void* seed = inputs[host_op_->inputs.size() + i];
      if (seed == nullptr || !result.requires_grad()) continue;
      roots.push_back(result);
      seeds.push_back(from_graph_bytes(seed, host_op_->outputs[i].type, result.scalar_type()));
    }
    std::vector<at::Tensor> gradients(wanted.size());
    if (!roots.empty()) {
      gradients = torch::autograd::grad(roots, wanted, seeds, /*retain_graph=*/c10::nullopt, /*create_graph=*/false,
                                        /*allow_unused=*/true);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const TensorType& type = host_op_->inputs[differentiable_[i]].type;
      if (gradients[i].defined()) {
        store(gradients[i], type, outputs[i]);
      } else {
        std::memset(outputs[i], 0, type.bytes());
      }
    }
  }

  std::shared_ptr<const HostOp> host_op_;
  std::vector<std::int64_t> differentiable_;
};

std::vector<at::Tensor> made_up_numbers(const BoxedOp& op) {
  std::vector<at::Tensor> numbers;
  const at::Generator own = at::detail::createCPUGenerator();  // the user's is not ours to move
  for (const at::Tensor& input : op.inputs()) {
    const bool floating = c10::isFloatingType(input.scalar_type());
    numbers.push_back((floating ? at::rand(input.sizes(), own) : at::zeros(input.sizes())).to(input.scalar_type()));
  }
  return numbers;
}

// Torch computes little in half precision on the CPU.
bool needs_float(const BoxedOp& op) {
  const auto is_half = [](const at::Tensor& input) { return input.scalar_type() == at::kHalf; };
  if (std::none_of(op.inputs().begin(), op.inputs().end(), is_half)) return false;
  try {
    op.call(made_up_numbers(op), c10::Device(c10::DeviceType::CPU));
    return false;
  } catch (const std::exception&) {
    take_foreign_error();
    return true;
  }
}

// Results of the right shapes and types: from torch's shape functions, or by computing with made-up numbers. The one
// kernel another library has for all devices may read memory, which the tensors of shape functions lack.
BoxedOp::Results example_results(const BoxedOp& op) {
  if (is_foreign(op.op()) && !op.op().hasKernelForDispatchKey(c10::DispatchKey::Meta)) {
    return op.call(made_up_numbers(op), c10::Device(c10::DeviceType::CPU));
  }
  std::vector<at::Tensor> metas;
  for (const at::Tensor& input : op.inputs()) {
    const auto options = at::TensorOptions().dtype(input.scalar_type());
    metas.push_back(at::empty(input.sizes(), options.device(c10::DeviceType::Meta)));
  }
  try {
    return op.call(metas, c10::Device(c10::DeviceType::Meta));
  } catch (const std::exception&) {
    take_foreign_error();
  }
  return op.call(made_up_numbers(op), c10::Device(c10::DeviceType::CPU));
}

void refuse_random(const Recorder& recorder, const c10::OperatorHandle& op) {
  if (!op.hasTag(at::Tag::nondeterministic_seeded)) return;
  throw aspen::UserError(
      "[{}] draws random numbers, and there is no form of it that draws them on the device. On the host it would "
      "follow "
      "torch's generator instead of randomSeed, the same in all replicas, and draw again in the backward pass. Make "
      "the "
      "numbers from those of torch.rand or torch.randn, or pass them to forward as an input.{}",
      full_name(op), recorder.where());
}

std::string type_list(const std::vector<Wire>& wires) {
  std::string text;
  for (const Wire& wire : wires) text += (text.empty() ? "" : "; ") + aspen::to_string(wire.type);
  return text;
}

}  // namespace

void set_foreign_language(ForeignLanguage language) { foreign_language() = std::move(language); }

torch::jit::Stack emit_host_call(Recorder& recorder, const c10::OperatorHandle& op,
                                 const torch::jit::Stack& arguments) {
  refuse_random(recorder, op);
  BoxedOp boxed(op, arguments, [&](const at::Tensor& tensor) { return recorder.is_traced(tensor); });
  // A check returns nothing: it runs for the sake of its complaints, which made-up numbers must not provoke.
  const bool is_check = op.schema().returns().empty() && boxed.written().empty();
  const auto example =
      is_check ? BoxedOp::Results{} : naming(op, recorder.where(), [&] { return example_results(boxed); });
  const bool widen = needs_float(boxed);
  if (widen) boxed.widen_constants();
  std::vector<aspen::Value*> values;
  std::vector<Wire> inputs, outputs;
  std::vector<std::int64_t> differentiable;
  for (const at::Tensor& input : boxed.inputs()) {
    values.push_back(recorder.value_of(input));
    const bool as_float = widen && input.scalar_type() == at::kHalf;
    inputs.push_back({values.back()->type(), as_float ? at::kFloat : input.scalar_type()});
    if (aspen::is_floating(values.back()->dtype())) {
      differentiable.push_back(static_cast<std::int64_t>(values.size() - 1));
    }
  }
  std::vector<std::size_t> results;
  for (std::size_t i = 0; i < example.flat.size(); ++i) {
    if (!example.flat[i].defined()) continue;
    results.push_back(i);
    outputs.push_back({graph_type(example.flat[i]), example.flat[i].scalar_type()});
  }
  recorder.note_host_call(op.operator_name().name);
  auto host_op = std::make_shared<const HostOp>(boxed, inputs, outputs, results);
  aspen::HostCallAttrs attrs;
  attrs.function = std::make_shared<ForwardCall>(host_op);
  const bool has_gradient =
      std::any_of(outputs.begin(), outputs.end(), [](const Wire& wire) { return aspen::is_floating(wire.type.dtype); });
  if (has_gradient && !differentiable.empty()) {
    attrs.gradient = std::make_shared<BackwardCall>(host_op, differentiable);
    attrs.differentiable = differentiable;
  }
  attrs.outputs = type_list(outputs);
  aspen::Op* node = recorder.b.emit("host_call", values, attrs);

  std::vector<at::Tensor> flat(example.flat.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    flat[results[i]] = recorder.wrap(node->output(i), outputs[i].torch_type);
  }
  const std::size_t first_written = flat.size() - boxed.written().size();
  for (std::size_t i = 0; i < boxed.written().size(); ++i) {
    recorder.write(boxed.written()[i], recorder.value_of(flat[first_written + i]));
  }
  return boxed.repack(example, flat);
}

}  // namespace poptorch
