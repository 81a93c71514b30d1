#include "poptorch/capture/recorder.h"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "aspen/base/log.h"
#include "aspen/compiler/evaluate.h"
#include "aspen/ops/build.h"
#include "aspen/ops/shape/shape.h"
#include "aspen/ops/source/source.h"
#include "poptorch/capture/dispatch.h"
#include "poptorch/capture/dispatch_scope.h"
#include "poptorch/capture/host_data.h"
#include "poptorch/capture/traced_impl.h"

namespace poptorch {
namespace {

// Other threads go on as ever while a model is captured on this one.
thread_local Recorder* current_recorder = nullptr;
thread_local bool is_paused = false;

std::mutex& turns() {
  static std::mutex mutex;
  return mutex;
}

std::function<std::string()>& source_provider() {
  static std::function<std::string()> provider;
  return provider;
}

bool same_bytes(const aspen::Value* constant, const aspen::TensorType& type, const std::vector<std::byte>& bytes) {
  return constant->type() == type && *constant->producer()->attrs<aspen::ConstantAttrs>().data.bytes == bytes;
}

bool is_written(const aspen::Variable* variable, const TracedStorage& storage) {
  return variable != nullptr && storage.writes > 0 && storage.base != variable->value.get();
}

}  // namespace

void set_source_provider(std::function<std::string()> provider) { source_provider() = std::move(provider); }

Recorder* Recorder::current() { return current_recorder; }

Recorder::Recorder(aspen::Graph& graph, bool training) : b(graph), training_(training), autograd_(*this) {
  register_with_dispatcher();
  install_variable_hooks();
}

Recorder::~Recorder() { capture_->writes.clear(); }

Recorder::Active::Active(Recorder& recorder) {
  if (current_recorder != nullptr || is_paused) {
    throw aspen::UserError(
        "[capture] a model is being captured already; a wrapped model cannot be called inside another one's forward.");
  }
  turn_ = std::unique_lock(turns());
  current_recorder = &recorder;
}

Recorder::Active::~Active() { current_recorder = nullptr; }

Recorder::Paused::Paused() : recorder_(current_recorder) {
  current_recorder = nullptr;
  is_paused = true;
}

Recorder::Paused::~Paused() {
  current_recorder = recorder_;
  is_paused = false;
}

void Recorder::add_variable(const std::string& name, const at::Tensor& tensor, aspen::VariableKind kind,
                            bool trainable) {
  if (table_.contains(tensor)) return;  // tied to an earlier one, or a view of it
  auto slot = std::make_unique<VariableSlot>();
  slot->name = name;
  slot->tensor = tensor;
  slot->storage = std::make_shared<TracedStorage>();
  slot->storage->capture = capture_;
  slot->storage->dtype = tensor.scalar_type();
  slot->storage->make = [this, slot = slot.get(), kind, trainable, type = graph_type(tensor)] {
    slot->variable = b.graph().add_variable(slot->name, kind, type, trainable);
    return slot->variable->value.get();
  };
  table_.add(tensor, slot->storage, trainable);
  variables_.push_back(std::move(slot));
}

at::Tensor Recorder::add_input(const std::string& name, const at::Tensor& example) {
  auto traced = Traced::fresh(capture_, b.graph().add_input(name, graph_type(example)), example.scalar_type());
  if (example.scalar_type() == c10::ScalarType::Long) b.graph().mark_wide_input(inputs_.size());
  inputs_.push_back({traced->storage()});
  return make_traced(std::move(traced));
}

std::vector<at::Tensor> Recorder::run(const std::function<std::vector<at::Tensor>()>& forward) {
  // With gradients off torch takes fused shortcuts in attention layers; whoever wants none says so in the model.
  c10::AutoGradMode grad_mode(true);
  CaptureScope capture;
  return forward();
}

void Recorder::finish() {
  assign_written_variables();
  std::vector<std::pair<at::Tensor, aspen::Value*>> parameters;
  for (const auto& slot : variables_) {
    if (slot->variable != nullptr) parameters.emplace_back(slot->tensor, slot->variable->value.get());
  }
  autograd_.take_in_hooks(parameters);
  drop_retired();
}

void Recorder::drop_retired() {
  std::vector<aspen::Op*> ops;
  for (const auto& op : b.graph().ops()) {
    if (is_retired(op.get())) ops.push_back(op.get());
  }
  for (const aspen::Op* op : ops) {
    for (const aspen::Value* output : op->outputs()) {
      const bool is_used = output->is_output() || std::any_of(output->users().begin(), output->users().end(),
                                                              [&](const aspen::Op* user) { return !is_retired(user); });
      if (!is_used) continue;
      throw aspen::UserError(
          "[capture] a tensor of type {} that was made in the body of a loop or in a branch is used outside of it. "
          "Only "
          "what the body returns leaves it: return this tensor as well.\n  captured at {}",
          aspen::to_string(output->type()), aspen::describe(op->location));
    }
  }
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) dropped_.push_back(b.graph().release(*op));
}

// Again after each backward pass of the user's: it may write as well.
void Recorder::assign_written_variables() {
  for (const auto& slot : variables_) {
    if (!is_written(slot->variable, *slot->storage)) continue;
    aspen::Value* contents = slot->storage->base;
    // A variable lives where its new contents are made, not where the model ends.
    if (const aspen::Op* producer = contents->producer()) b.like(*producer);
    if (slot->assign == nullptr) {
      slot->assign = b.emit("assign", {slot->variable->value.get(), contents});
    } else if (slot->assign->input(1) != contents) {
      slot->assign->set_input(1, contents);
      slot->assign->placement = b.placement;
      slot->assign->backward = b.backward;
      b.graph().move_before(slot->assign, nullptr);
    }
  }
}

void Recorder::record_backward(const aspen::Op& op, const std::function<void()>& body) {
  Active active(*this);
  b.like(op);
  b.backward = true;
  scopes_ = {op.location.scope};
  after_block_ = false;
  in_backward_ = true;
  c10::AutoGradMode grad_mode(false);
  CaptureScope capture;
  body();
  assign_written_variables();
}

std::vector<std::string> Recorder::written_variables() const {
  std::vector<std::string> names;
  for (const auto& slot : variables_) {
    if (is_written(slot->variable, *slot->storage)) names.push_back(slot->name);
  }
  return names;
}

std::vector<Recorder::WrittenInput> Recorder::written_inputs() {
  std::vector<WrittenInput> written;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].storage->writes > 0) written.push_back({i, inputs_[i].storage->base});
  }
  return written;
}

bool Recorder::is_traced(const at::Tensor& tensor) const {
  return tensor.defined() &&
         (traced_impl(tensor) != nullptr || table_.contains(tensor) || autograd_.is_new_result(tensor));
}

bool Recorder::wants_gradient(const TracedImpl& impl) { return impl.traced()->wants_gradient(b); }

void Recorder::require_own(const TracedImpl& impl) const {
  if (owns(impl)) return;
  throw aspen::UserError(
      "[capture] a tensor of shape {} and type {} was made when forward was captured before, and was kept since. What "
      "modules keep in their attributes is put back after each capture; this one was kept elsewhere: in a global "
      "variable, a closure, a cache or a C++ member. Make it anew in each forward.{}",
      aspen::to_string(impl.traced()->shape()), c10::toString(impl.traced()->dtype()), where());
}

std::shared_ptr<Traced> Recorder::find(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  TracedImpl* impl = traced_impl(tensor);
  if (impl != nullptr) require_own(*impl);
  if (autograd_.is_new_result(tensor)) autograd_.take_in(tensor);
  return impl != nullptr ? impl->traced() : table_.find(tensor, b);
}

std::shared_ptr<Traced> Recorder::find_or_adopt(const at::Tensor& tensor) {
  if (auto traced = find(tensor)) return traced;
  HostScope host;
  // The whole of its memory: other views of it must see what is written through this one.
  at::Tensor whole = tensor;
  const auto elements = static_cast<std::int64_t>(tensor.storage().nbytes() / tensor.itemsize());
  if (tensor.numel() != elements || !tensor.is_non_overlapping_and_dense()) {
    whole = tensor.detach().as_strided({elements}, {1}, 0);
  }
  auto storage = std::make_shared<TracedStorage>();
  storage->capture = capture_;
  storage->dtype = tensor.scalar_type();
  storage->base = storage->first = constant_of(whole);
  table_.add(whole, std::move(storage), false);
  return table_.find(tensor, b);
}

aspen::Value* Recorder::constant_of(const at::Tensor& tensor) {
  if (tensor.layout() != c10::kStrided || !(tensor.device().is_cpu())) {
    throw aspen::UserError(
        "[capture] a tensor on device {} with layout {} meets the model; only dense CPU tensors can "
        "be used inside it.{}",
        tensor.device().str(), c10::str(tensor.layout()), where());
  }
  const aspen::TensorType type = graph_type(tensor);
  std::vector<std::byte> bytes = to_graph_bytes(tensor);
  // Of tensors that are made anew again and again, thousands lie at one address.
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto& seen = constants_[{tensor.data_ptr(), std::hash<std::string_view>()(text)}];
  for (aspen::Value* constant : seen) {
    // Each device keeps the constants it needs.
    if (constant->producer()->placement == b.placement && same_bytes(constant, type, bytes)) return constant;
  }
  seen.push_back(aspen::build::constant(b, type, std::move(bytes)));
  return seen.back();
}

aspen::Value* Recorder::value_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  if (auto traced = find(tensor)) return traced->read(b);
  HostScope host;
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number() && !tensor.is_complex()) {
    return aspen::build::scalar(b, graph_dtype(tensor.scalar_type()), tensor.item().toDouble());
  }
  return constant_of(tensor);
}

at::Tensor Recorder::wrap(aspen::Value* value, c10::ScalarType type) {
  if (graph_dtype(c10::toRealValueType(type)) != value->dtype()) {
    throw aspen::InternalError("a value of type {} cannot stand for a torch tensor of type {}{}",
                               aspen::to_string(value->type()), c10::toString(type), where());
  }
  // A copy of a tensor is another tensor to hooks and functions: it needs a value of its own where gradients flow. One
  // made with gradients off, clone() under no_grad, has none.
  if (training_ && capture_->paths.wants(value)) {
    if (b.no_grad) {
      value = b.make("detach", {value});
    } else if (value->id() < first_new_value_) {
      value = b.make("reshape", {value}, aspen::ReshapeAttrs{value->shape()});
    }
  }
  return make_traced(Traced::fresh(capture_, value, type));
}

void Recorder::write(const at::Tensor& tensor, aspen::Value* value) {
  auto traced = find_or_adopt(tensor);
  value = aspen::build::cast(b, value, graph_dtype(traced->dtype()));
  if (value->shape() != traced->shape()) {
    const aspen::Shape fit = aspen::broadcast_shapes(value->shape(), traced->shape(), "in-place");
    if (fit != traced->shape()) {
      throw aspen::UserError("[in-place] a value of shape {} does not fit the tensor of shape {} it is written to.{}",
                             aspen::to_string(value->shape()), aspen::to_string(traced->shape()), where());
    }
    value = aspen::build::broadcast(b, value, traced->shape());
  }
  traced->write(b, value);
}

std::optional<at::Tensor> Recorder::known(const at::Tensor& tensor) {
  if (!tensor.defined()) return std::nullopt;
  auto traced = find(tensor);
  if (traced == nullptr) return tensor;
  aspen::Value* value = traced->read(b);
  const std::vector<std::byte>* bytes = known_.find(value);
  if (bytes == nullptr) return std::nullopt;
  HostScope host;
  return from_graph_bytes(bytes->data(), value->type(), traced->dtype()).clone();
}

std::shared_ptr<Traced> Recorder::detached(const std::shared_ptr<Traced>& traced) {
  locate();
  return traced->view(b, {{"detach", {}}});
}

void Recorder::set_data(const at::Tensor& tensor, const at::Tensor& data) {
  locate();
  if (shape_of(tensor) != shape_of(data) || tensor.scalar_type() != data.scalar_type()) {
    throw aspen::UserError(
        "[data] the contents of a tensor of the model, {} of shape {}, cannot be set to a {} tensor of shape {}: on "
        "the "
        "device it keeps its type and shape.{}",
        c10::toString(tensor.scalar_type()), aspen::to_string(shape_of(tensor)), c10::toString(data.scalar_type()),
        aspen::to_string(shape_of(data)), where());
  }
  // Memory of its own from now on, with the path of gradients it had: views taken before keep the memory they show.
  const auto before = find(tensor);
  const auto after = before->moved(b, value_of(data));
  if (TracedImpl* impl = traced_impl(tensor)) return impl->rebind(after);
  table_.replace(tensor, after->storage(), after->history());
  for (const auto& slot : variables_) {
    if (slot->storage == before->storage()) slot->storage = after->storage();
  }
}

void Recorder::note_host_call(const std::string& op) {
  if (host_calls_.insert(op).second) aspen::log::warn("{} runs on the host", op);
}

void Recorder::push_scope(std::string name) { scopes_.push_back(std::move(name)); }

void Recorder::pop_scope() {
  if (scopes_.empty()) throw aspen::UserError("[capture] pop_name_scope without a push_name_scope before it.");
  scopes_.pop_back();
}

void Recorder::begin_block(aspen::Placement placement) {
  b.placement = placement;
  after_block_ = false;
  if (placement.device != device_of_block_) ++num_stages_;
  device_of_block_ = placement.device;
}

void Recorder::end_block() { after_block_ = true; }

void Recorder::count_parts(bool by_parameters) {
  parts_.resize(1);
  parts_by_parameters_ = by_parameters;
}

void Recorder::enter_module(const std::string& name) {
  if (parts_.empty() || in_backward_) return;
  const std::size_t ops = b.graph().ops().size();
  if (open_regions_ == 0 && (ops != ops_before_part_ || parts_.size() == 1)) {
    b.placement = {.stage = static_cast<std::int64_t>(parts_.size())};
    parts_.emplace_back();
    ops_before_part_ = ops;
  }
  const bool is_first = last_calls_.insert_or_assign(name, static_cast<std::int64_t>(parts_.size()) - 1).second;
  if (is_first && open_regions_ == 0) parts_.back().push_back(name);
}

// A module in C++ runs no hooks: it shows by its parameters that it was called.
void Recorder::enter_module_of(const at::Tensor& parameter) {
  for (const auto& slot : variables_) {
    if (!slot->tensor.is_same(parameter)) continue;
    const auto dot = slot->name.rfind('.');
    const std::string module = dot == std::string::npos ? "" : slot->name.substr(0, dot);
    if (module.empty() || module == module_of_parameters_) return;
    module_of_parameters_ = module;
    return enter_module(module);
  }
}

std::vector<aspen::StageCut::Part> Recorder::parts() const {
  std::vector<aspen::StageCut::Part> result;
  for (const auto& names : parts_) {
    aspen::StageCut::Part& part = result.emplace_back();
    for (const std::string& name : names) {
      const std::int64_t last = last_calls_.at(name);
      if (part.module.empty() || last < part.last_call) part = {name, last};
    }
  }
  return result;
}

bool Recorder::claim_id(const std::string& id, const std::shared_ptr<const void>& layer) {
  return host_layers_.try_emplace(id, layer).first->second == layer;
}

void Recorder::require_block(const std::string& op) const {
  if (!after_block_) return;
  throw aspen::UserError(
      "[{}] No active Block: the op comes after the end of a Block and is in no other, so it has no stage and no IPU. "
      "Put it into a Block; one with the user_id of an earlier block continues that block.{}",
      op, where());
}

void Recorder::locate() {
  std::string scope;
  for (const std::string& name : scopes_) scope += scope.empty() ? name : "/" + name;
  b.location.scope = std::move(scope);
  b.location.source = source_provider() ? source_provider()() : "";
  b.no_grad = !c10::GradMode::is_enabled();
}

std::string Recorder::where() const { return b.location.source.empty() ? "" : "\n  captured at " + b.location.source; }

}  // namespace poptorch
