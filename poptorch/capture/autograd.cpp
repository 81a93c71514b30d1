#include "poptorch/capture/autograd.h"

#include <ATen/ExpandUtils.h>
#include <ATen/SequenceNumber.h>
#include <ATen/core/VariableHooksInterface.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <map>

#include "aspen/ops/build.h"
#include "aspen/ops/gradient/gradient.h"
#include "aspen/ops/shape/shape.h"
#include "poptorch/capture/host_data.h"
#include "poptorch/capture/recorder.h"
#include "poptorch/capture/traced_impl.h"

namespace poptorch {
namespace {

namespace ag = torch::autograd;
using ag::impl::get_autograd_meta;

// Stands for the op of the graph that makes a value. Torch links functions and hooks of the user's to it.
struct GraphNode final : ag::Node {
  explicit GraphNode(aspen::Value* value) : value(value) {}

  std::string name() const override { return "GraphBackward"; }
  ag::variable_list apply(ag::variable_list&&) override {
    throw aspen::UserError(
        "[backward] gradients were asked for in the middle of the model (torch.autograd.grad or backward()). While a "
        "model is captured there is nothing to differentiate yet; a trainingModel computes the gradients of its loss "
        "after forward. Compute such a gradient in closed form, or in the backward of a torch.autograd.Function.");
  }

  aspen::Value* value;
};

struct TracedAutogradMeta final : ag::AutogradMeta {
  explicit TracedAutogradMeta(TracedImpl& impl) : impl(impl) {}

  bool requires_grad() const override {
    if (AutogradMeta::requires_grad()) return true;
    Recorder* recorder = Recorder::current();
    return recorder != nullptr && recorder->owns(impl) && recorder->wants_gradient(impl);
  }
  // requires_grad_() makes a leaf. Nothing trains it, but what is computed from it may have functions and hooks.
  void set_requires_grad(bool wanted, at::TensorImpl* self) override {
    AutogradMeta::set_requires_grad(wanted, self);
    Recorder* recorder = Recorder::current();
    if (wanted && recorder != nullptr && recorder->owns(impl) && !recorder->wants_gradient(impl)) {
      recorder->autograd().begin_paths_at(impl);
    }
  }

  TracedImpl& impl;
};

// A function with a backward pass of its own.
class FunctionGradient final : public aspen::CustomGradient {
 public:
  struct Result {
    std::uint32_t number;  // among the results of the function
    c10::ScalarType dtype;
  };

  FunctionGradient(Recorder& recorder, std::shared_ptr<ag::Node> function, std::vector<Result> results,
                   std::vector<std::size_t> edges)
      : recorder_(recorder), function_(std::move(function)), results_(std::move(results)), edges_(std::move(edges)) {}

  std::string name() const override { return function_->name(); }

  std::vector<aspen::Value*> run(const aspen::Op& op, const std::vector<aspen::Value*>& arriving) override {
    std::vector<aspen::Value*> gradients(op.num_inputs(), nullptr);
    recorder_.record_backward(op, [&] {
      ag::variable_list given(function_->num_inputs());
      for (std::size_t i = 0; i < results_.size(); ++i) {
        if (arriving[i] == nullptr) continue;
        at::Tensor& place = given[results_[i].number];
        const at::Tensor gradient = recorder_.wrap(arriving[i], results_[i].dtype);
        place = place.defined() ? place + gradient : gradient;
      }
      const ag::variable_list answers = call(std::move(given));
      for (std::size_t i = 0; i < edges_.size(); ++i) {
        const std::size_t input = results_.size() + i;
        gradients[input] = value_of(answers.at(edges_[i]), op.input(input)->type());
      }
    });
    return gradients;
  }

 private:
  // As the engine of torch does.
  ag::variable_list call(ag::variable_list given) {
    for (const auto& hook : function_->pre_hooks()) given = (*hook)(given);
    const ag::variable_list seen = function_->post_hooks().empty() ? ag::variable_list() : given;
    ag::variable_list answers = (*function_)(std::move(given));
    for (const auto& hook : function_->post_hooks()) answers = (*hook)(answers, seen);
    return answers;
  }

  aspen::Value* value_of(at::Tensor gradient, const aspen::TensorType& wanted) const {
    if (!gradient.defined()) return nullptr;
    if (shape_of(gradient) != wanted.shape) {
      if (!at::is_expandable_to(c10::IntArrayRef(wanted.shape), gradient.sizes())) {
        throw aspen::UserError("[{}] returned a gradient of shape {} for an input of shape {}.", name(),
                               aspen::to_string(shape_of(gradient)), aspen::to_string(wanted.shape));
      }
      gradient = at::sum_to(gradient, c10::IntArrayRef(wanted.shape));
    }
    return aspen::build::cast(recorder_.b, recorder_.value_of(gradient), wanted.dtype);
  }

  Recorder& recorder_;
  std::shared_ptr<ag::Node> function_;
  std::vector<Result> results_;     // by output of the op
  std::vector<std::size_t> edges_;  // by input after those: which gradient of the function it is
};

// The hooks on one tensor.
class HookGradient final : public aspen::CustomGradient {
 public:
  using Hooks = std::vector<ag::FunctionPreHook*>;

  HookGradient(Recorder& recorder, Hooks hooks, c10::ScalarType dtype)
      : recorder_(recorder), hooks_(std::move(hooks)), dtype_(dtype) {}

  std::string name() const override { return "hooks"; }

  std::vector<aspen::Value*> run(const aspen::Op& op, const std::vector<aspen::Value*>& arriving) override {
    aspen::Value* changed = nullptr;
    recorder_.record_backward(op, [&] {
      at::Tensor gradient = recorder_.wrap(arriving.at(0), dtype_);
      for (ag::FunctionPreHook* hook : hooks_) gradient = (*hook)({gradient}).at(0);
      changed = recorder_.value_of(gradient);  // read now: a hook may have changed it in place
    });
    return {changed};
  }

 private:
  Recorder& recorder_;
  Hooks hooks_;  // of objects that live as long as the recorder
  c10::ScalarType dtype_;
};

// Hands all questions on to torch, except those about tensors that are being captured.
class CapturingHooks final : public at::impl::VariableHooksInterface {
 public:
  explicit CapturingHooks(at::impl::VariableHooksInterface& own) : own_(own) {}

  const std::shared_ptr<ag::Node>& grad_fn(const at::TensorBase& self) const override {
    Recorder* recorder = recorder_of(self);
    if (recorder == nullptr) return own_.grad_fn(self);
    try {
      return recorder->autograd().grad_fn(self);
    } catch (const aspen::Error& error) {
      recorder->note_error(error);
      throw;
    }
  }
  bool is_leaf(const at::TensorBase& self) const override {
    return recorder_of(self) == nullptr ? own_.is_leaf(self) : grad_fn(self) == nullptr;
  }
  std::int64_t output_nr(const at::TensorBase& self) const override {
    Recorder* recorder = recorder_of(self);
    return recorder == nullptr ? own_.output_nr(self) : recorder->autograd().output_nr(self);
  }
  void set_data(const at::TensorBase& self, const at::TensorBase& data) const override {
    Recorder* recorder = Recorder::current();
    if (recorder == nullptr || !recorder->is_traced(at::Tensor(self))) return own_.set_data(self, data);
    try {
      recorder->set_data(at::Tensor(self), at::Tensor(data));
    } catch (const aspen::Error& error) {
      recorder->note_error(error);
      throw;
    }
  }

  at::TensorBase tensor_data(const at::TensorBase& self) const override { return answering(own_.tensor_data(self)); }
  at::TensorBase variable_data(const at::TensorBase& self) const override {
    return answering(own_.variable_data(self));
  }
  unsigned _register_hook(const at::TensorBase& self,
                          std::function<at::TensorBase(const at::TensorBase&)> hook) const override {
    return own_._register_hook(self, std::move(hook));
  }
  void remove_hook(const at::TensorBase& self, unsigned position) const override { own_.remove_hook(self, position); }
  bool is_view(const at::TensorBase& self) const override { return own_.is_view(self); }
  const at::TensorBase& base(const at::TensorBase& self) const override { return own_.base(self); }
  const std::string& name(const at::TensorBase& self) const override { return own_.name(self); }
  at::TensorBase data(const at::TensorBase& self) const override { return own_.data(self); }
  std::int64_t _version(const at::TensorBase& self) const override { return own_._version(self); }
  void retain_grad(const at::TensorBase& self) const override { own_.retain_grad(self); }
  bool retains_grad(const at::TensorBase& self) const override { return own_.retains_grad(self); }
  void _backward(const at::Tensor& self, at::TensorList inputs, const c10::optional<at::Tensor>& gradient,
                 c10::optional<bool> keep_graph, bool create_graph) const override {
    own_._backward(self, inputs, gradient, keep_graph, create_graph);
  }
  void requires_grad_(const at::TensorBase& self, bool wanted) const override { own_.requires_grad_(self, wanted); }

 private:
  // Torch takes from `.data` what it knows of gradients. It may get some of its own when it is written.
  static at::TensorBase answering(at::TensorBase tensor) {
    if (TracedImpl* impl = traced_impl(tensor)) impl->set_autograd_meta(make_traced_autograd_meta(*impl));
    return tensor;
  }

  static Recorder* recorder_of(const at::TensorBase& self) {
    TracedImpl* impl = traced_impl(self);
    Recorder* recorder = impl == nullptr ? nullptr : Recorder::current();
    return recorder != nullptr && recorder->owns(*impl) ? recorder : nullptr;
  }

  at::impl::VariableHooksInterface& own_;
};

void check_no_post_hooks(const ag::Node& node, const aspen::Value& value) {
  if (node.post_hooks().empty()) return;
  const aspen::Op* op = value.producer();
  throw aspen::UserError(
      "[register_hook] a hook on the grad_fn of a tensor, which register_backward_hook makes as well, is shown the "
      "gradients inside one op of torch's, and those do not exist here. Use register_full_backward_hook on the module "
      "or register_hook on the tensor.{}",
      op == nullptr || op->location.source.empty() ? "" : "\n  captured at " + op->location.source);
}

}  // namespace

std::unique_ptr<c10::AutogradMetaInterface> make_traced_autograd_meta(TracedImpl& impl) {
  return std::make_unique<TracedAutogradMeta>(impl);
}

void install_variable_hooks() {
  // Never destroyed: tensors may ask until the process ends.
  static CapturingHooks* const hooks = [] {
    auto* made = new CapturingHooks(*at::impl::GetVariableHooks());
    at::impl::SetVariableHooks(made);
    return made;
  }();
  static_cast<void>(hooks);
}

Autograd::Autograd(Recorder& recorder) : recorder_(recorder), first_sequence_nr_(at::sequence_number::peek()) {}

bool Autograd::is_new_result(const at::Tensor& tensor) const {
  if (!recorder_.training() || recorder_.is_in_backward()) return false;
  const ag::AutogradMeta* meta = get_autograd_meta(tensor);
  const Node* node = meta == nullptr ? nullptr : meta->grad_fn_.get();
  return node != nullptr && node->sequence_nr() >= first_sequence_nr_ && functions_.count(node) == 0;
}

aspen::Value* Autograd::value_at(const ag::Edge& edge, const Node& function) {
  if (const auto* node = dynamic_cast<const GraphNode*>(edge.function.get())) return node->value;
  if (const auto found = functions_.find(edge.function.get()); found != functions_.end()) {
    return found->second.at(edge.input_nr);
  }
  if (const auto* leaf = dynamic_cast<const ag::AccumulateGrad*>(edge.function.get())) {
    const auto traced = recorder_.find(leaf->variable);
    return traced == nullptr ? nullptr : traced->read(recorder_.b);  // nullptr: not part of the model
  }
  throw aspen::UserError(
      "[{}] is given a tensor that torch computed from a parameter before forward was called, by {}. Compute it inside "
      "forward, so that its gradient can be followed.{}",
      function.name(), edge.function->name(), recorder_.where());
}

void Autograd::take_in(const at::Tensor& result) {
  const std::shared_ptr<Node> function = get_autograd_meta(result)->grad_fn_;
  kept_.push_back(function);
  Results& known = functions_[function.get()];  // first: what follows looks at the same tensors again

  std::multimap<std::uint32_t, std::shared_ptr<Traced>> results;
  if (traced_impl(result) == nullptr) {
    results.emplace(get_autograd_meta(result)->output_nr_, recorder_.find_or_adopt(result));
  }
  {
    Capture& capture = recorder_.capture();
    std::lock_guard lock(capture.mutex);
    for (const TracedImpl* impl : capture.tensors) {
      const auto* meta = static_cast<const ag::AutogradMeta*>(impl->autograd_meta());
      if (meta != nullptr && meta->grad_fn_ == function) results.emplace(meta->output_nr_, impl->traced());
    }
  }

  // Where the function did its work, whoever uses its results first.
  aspen::Builder& b = recorder_.b;
  const aspen::Placement placement = b.placement;
  const bool no_grad = b.no_grad;
  std::vector<aspen::Value*> inputs;
  std::vector<FunctionGradient::Result> outputs;
  for (const auto& [number, traced] : results) {
    inputs.push_back(traced->read(b));
    outputs.push_back({number, traced->dtype()});
    if (const aspen::Op* producer = inputs.back()->producer()) b.placement = producer->placement;
  }
  std::vector<std::size_t> edges;
  for (std::size_t i = 0; i < function->next_edges().size(); ++i) {
    const ag::Edge& edge = function->next_edge(i);
    aspen::Value* value = edge.is_valid() ? value_at(edge, *function) : nullptr;
    if (value == nullptr) continue;
    edges.push_back(i);
    inputs.push_back(value);
  }
  b.no_grad = false;
  aspen::CustomGradientAttrs attrs;
  attrs.outputs = static_cast<std::int64_t>(outputs.size());
  attrs.function = std::make_shared<FunctionGradient>(recorder_, function, outputs, std::move(edges));
  const aspen::Op* op = b.emit("custom_gradient", std::move(inputs), attrs);
  std::size_t next = 0;
  for (const auto& [number, traced] : results) {
    traced->set_path(b, op->output(next++));
    known[number] = traced->read(b);
  }
  b.no_grad = no_grad;
  b.placement = placement;
}

void Autograd::begin_paths_at(const TracedImpl& impl) {
  recorder_.locate();
  aspen::Builder& b = recorder_.b;
  aspen::Value* value = impl.traced()->read(b);
  value = b.make("reshape", {value}, aspen::ReshapeAttrs{value->shape()});  // one that no other tensor shows
  impl.traced()->set_path(b, value);
  recorder_.capture().paths.begin_at(*value);
  leaves_.insert(value);
}

const std::shared_ptr<Autograd::Node>& Autograd::grad_fn(const at::TensorBase& base) {
  static const std::shared_ptr<Node> none;
  const at::Tensor tensor(base);
  recorder_.locate();
  aspen::Value* value = recorder_.value_of(tensor);  // takes in the function it comes from
  // What is changed behind autograd's back keeps its grad_fn.
  while (value->producer() != nullptr && value->producer()->is("graft")) value = value->producer()->input(1);
  ag::AutogradMeta* meta = get_autograd_meta(tensor);
  if (meta != nullptr && meta->grad_fn_ != nullptr) {
    const auto function = functions_.find(meta->grad_fn_.get());
    if (function == functions_.end() || function->second[meta->output_nr_] == value) return meta->grad_fn_;
    meta->grad_fn_ = nullptr;  // changed in place since
    meta->output_nr_ = 0;
  }
  if (leaves_.count(value) > 0 || !recorder_.capture().paths.wants(value)) return none;
  std::shared_ptr<Node>& node = grad_fns_[value];
  if (node == nullptr) {
    node = std::make_shared<GraphNode>(value);
    asked_.emplace_back(value, tensor.scalar_type());
  }
  return node;
}

std::int64_t Autograd::output_nr(const at::TensorBase& tensor) {
  grad_fn(tensor);
  const ag::AutogradMeta* meta = get_autograd_meta(tensor);
  return meta == nullptr || meta->grad_fn_ == nullptr ? 0 : meta->output_nr_;
}

bool Autograd::has_hooks(const std::function<bool(const aspen::Value*)>& is_meant) const {
  return std::any_of(grad_fns_.begin(), grad_fns_.end(), [&](const auto& entry) {
    return is_meant(entry.first) && (!entry.second->pre_hooks().empty() || !entry.second->post_hooks().empty());
  });
}

void Autograd::take_in_hooks(const std::vector<std::pair<at::Tensor, aspen::Value*>>& parameters) {
  if (!recorder_.training()) return;
  const auto emit = [&](aspen::Value* value, HookGradient::Hooks hooks, c10::ScalarType dtype) {
    if (hooks.empty()) return;
    // Where the value is made; a parameter is where it is used first.
    const aspen::Op* home = value->producer();
    if (home == nullptr && !value->users().empty()) home = value->users().front();
    if (home != nullptr) recorder_.b.like(*home);
    aspen::GradientHookAttrs attrs{std::make_shared<HookGradient>(recorder_, std::move(hooks), dtype)};
    recorder_.b.emit("gradient_hook", {value}, attrs);
  };
  for (const auto& [parameter, value] : parameters) {
    HookGradient::Hooks hooks;
    for (const auto& hook : ag::impl::hooks(parameter)) hooks.push_back(hook.get());
    emit(value, std::move(hooks), parameter.scalar_type());
  }
  for (const auto& [value, dtype] : asked_) {
    const Node& node = *grad_fns_.at(value);
    check_no_post_hooks(node, *value);
    HookGradient::Hooks hooks;
    for (const auto& hook : node.pre_hooks()) hooks.push_back(hook.get());
    emit(value, std::move(hooks), dtype);
  }
}

}  // namespace poptorch
