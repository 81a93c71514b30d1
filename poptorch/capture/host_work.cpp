#include "poptorch/capture/host_work.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cstring>

#include "aspen/ops/host_call/host_call.h"
#include "poptorch/capture/complex.h"
#include "poptorch/capture/dispatch_scope.h"
#include "poptorch/capture/host_data.h"
#include "poptorch/capture/stored_work.h"

namespace poptorch {
namespace {

using aspen::TensorType;
using Tensors = std::vector<at::Tensor>;

ForeignLanguage& foreign_language() {
  static ForeignLanguage language;
  return language;
}

// While the program runs, on a thread the language of the model may never have seen.
template <class F>
void naming_on_worker(const HostWork& work, const F& run) {
  std::shared_ptr<void> thread;
  if (work.is_foreign) thread = keep_foreign_thread();
  naming(work.name, "", run);
}

// Buffers are read as tensors without copying where the types agree.
Tensors read_inputs(const HostWork& work, std::span<const void* const> buffers) {
  Tensors tensors;
  for (std::size_t i = 0; i < work.inputs.size(); ++i) {
    tensors.push_back(from_graph_bytes(buffers[i], work.inputs[i].type, work.inputs[i].torch_type));
  }
  return tensors;
}

Tensors results_of(const HostWork& work, const Tensors& inputs) {
  Tensors results = work.run(inputs);
  if (results.size() == work.outputs.size()) return results;
  throw aspen::UserError("[{}] returned {} tensors where it returned {} when the model was captured.", work.name,
                         results.size(), work.outputs.size());
}

class ForwardCall final : public TypedFunction {
 public:
  explicit ForwardCall(std::shared_ptr<const HostWork> work) : work_(std::move(work)) {}
  std::string name() const override { return work_->name; }
  std::optional<std::vector<std::byte>> stored() const override { return stored_call(*work_, std::nullopt); }
  std::vector<TensorType> input_types() const override { return types_of(work_->inputs); }
  std::vector<TensorType> output_types() const override { return types_of(work_->outputs); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs) override {
    naming_on_worker(*work_, [&] {
      HostScope host;
      const Tensors results = results_of(*work_, read_inputs(*work_, inputs));
      for (std::size_t i = 0; i < outputs.size(); ++i) store(results[i], work_->outputs[i].type, outputs[i]);
    });
  }

 private:
  std::shared_ptr<const HostWork> work_;
};

// Does the work again under torch's autograd and asks it for the gradients.
class BackwardCall final : public TypedFunction {
 public:
  BackwardCall(std::shared_ptr<const HostWork> work, std::vector<std::int64_t> differentiable)
      : work_(std::move(work)), differentiable_(std::move(differentiable)) {}
  std::string name() const override { return work_->name + " backward"; }
  std::optional<std::vector<std::byte>> stored() const override { return stored_call(*work_, differentiable_); }
  std::vector<TensorType> input_types() const override {
    std::vector<TensorType> types = types_of(work_->inputs);
    for (const Wire& output : work_->outputs) types.push_back(output.type);
    return types;
  }
  std::vector<TensorType> output_types() const override {
    std::vector<TensorType> types;
    for (const std::int64_t i : differentiable_) types.push_back(work_->inputs[static_cast<std::size_t>(i)].type);
    return types;
  }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs) override {
    naming_on_worker(*work_, [&] { differentiate(inputs, outputs); });
  }

 private:
  void differentiate(std::span<const void* const> inputs, std::span<void* const> outputs) const {
    AutogradScope autograd;
    c10::AutoGradMode grad_mode(true);
    Tensors tensors = read_inputs(*work_, inputs);
    Tensors wanted;
    for (std::int64_t i : differentiable_) {
      tensors[i] = tensors[i].detach().requires_grad_(true);
      wanted.push_back(tensors[i]);
    }
    const Tensors results = results_of(*work_, tensors);
    Tensors roots, seeds;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const void* seed = inputs[work_->inputs.size() + i];
      if (seed == nullptr || !results[i].requires_grad()) continue;
      roots.push_back(results[i]);
      seeds.push_back(from_graph_bytes(seed, work_->outputs[i].type, results[i].scalar_type()));
    }
    Tensors gradients(wanted.size());
    if (!roots.empty()) {
      gradients = torch::autograd::grad(roots, wanted, seeds, /*retain_graph=*/c10::nullopt, /*create_graph=*/false,
                                        /*allow_unused=*/true);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const TensorType& type = work_->inputs[differentiable_[i]].type;
      if (gradients[i].defined()) {
        store(gradients[i], type, outputs[i]);
      } else {
        std::memset(outputs[i], 0, type.bytes());
      }
    }
  }

  std::shared_ptr<const HostWork> work_;
  std::vector<std::int64_t> differentiable_;
};

}  // namespace

aspen::Repair repair_of(const RecoverableError& error) {
  if (error.recoveryAction() == "IPU_RESET") return aspen::Repair::kDeviceReset;
  if (error.recoveryAction() == "LINK_RESET") return aspen::Repair::kLinkReset;
  if (error.recoveryAction() == "PARTITION_RESET") return aspen::Repair::kPartitionReset;
  return aspen::Repair::kFullReset;
}

std::shared_ptr<aspen::HostFunction> forward_call(std::shared_ptr<const HostWork> work) {
  return std::make_shared<ForwardCall>(std::move(work));
}

std::shared_ptr<aspen::HostFunction> backward_call(std::shared_ptr<const HostWork> work,
                                                   std::vector<std::int64_t> differentiable) {
  return std::make_shared<BackwardCall>(std::move(work), std::move(differentiable));
}

std::vector<TensorType> types_of(const std::vector<Wire>& wires) {
  std::vector<TensorType> types;
  for (const Wire& wire : wires) types.push_back(wire.type);
  return types;
}

std::vector<Wire> wires_of(const Tensors& tensors) {
  std::vector<Wire> wires;
  for (const at::Tensor& tensor : tensors) wires.push_back({graph_type(tensor), tensor.scalar_type()});
  return wires;
}

std::string type_list(const std::vector<Wire>& wires) {
  std::string text;
  for (const Wire& wire : wires) text += (text.empty() ? "" : "; ") + aspen::to_string(wire.type);
  return text;
}

Tensors emit_host_work(Recorder& recorder, const Tensors& inputs, HostWork work) {
  std::vector<aspen::Value*> values;
  std::vector<std::int64_t> differentiable;
  for (const at::Tensor& input : inputs) {
    values.push_back(recorder.value_of(input));
    // Torch refuses gradients of some arguments, which only those who ask for them must learn.
    if (aspen::is_floating(values.back()->dtype()) && input.requires_grad()) {
      differentiable.push_back(static_cast<std::int64_t>(values.size() - 1));
    }
  }
  const auto is_floating = [](const Wire& wire) { return aspen::is_floating(wire.type.dtype); };
  const bool has_gradient = std::any_of(work.outputs.begin(), work.outputs.end(), is_floating);
  const auto shared = std::make_shared<const HostWork>(std::move(work));
  aspen::HostCallAttrs attrs;
  attrs.function = forward_call(shared);
  if (has_gradient && !differentiable.empty()) {
    attrs.gradient = backward_call(shared, differentiable);
    attrs.differentiable = differentiable;
  }
  attrs.outputs = type_list(shared->outputs);
  attrs.absent_gradients = true;  // torch's formulas know what need not be computed, and then have no poles there
  return wrap_outputs(recorder, recorder.b.emit("host_call", values, attrs), shared->outputs);
}

Tensors wrap_outputs(Recorder& recorder, aspen::Op* node, const std::vector<Wire>& outputs) {
  Tensors tensors;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    tensors.push_back(recorder.wrap(node->output(i), outputs[i].torch_type));
  }
  return tensors;
}

void store(const at::Tensor& result, const TensorType& type, void* into) {
  const at::Tensor tensor = as_pairs(result);
  if (tensor.sizes() != c10::IntArrayRef(type.shape)) {
    throw aspen::UserError(
        "a result has shape {} where {} was expected from its arguments' shapes; ops with results "
        "of varying shape cannot be part of a model.",
        aspen::to_string(shape_of(tensor)), aspen::to_string(type.shape));
  }
  const at::Tensor exact = tensor.detach().to(host_dtype(type.dtype)).contiguous();
  std::memcpy(into, exact.data_ptr(), type.bytes());
}

void set_foreign_language(ForeignLanguage language) { foreign_language() = std::move(language); }

std::string take_foreign_error() { return foreign_language().take_error ? foreign_language().take_error() : ""; }

std::shared_ptr<void> keep_foreign_thread() {
  return foreign_language().keep_thread ? foreign_language().keep_thread() : nullptr;
}

}  // namespace poptorch
