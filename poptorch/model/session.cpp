#include "poptorch/model/session.h"

#include <algorithm>

#include "aspen/base/log.h"
#include "poptorch/model/trace_channel.h"
#include "poptorch/profiling.h"

namespace poptorch {
namespace {

constexpr double kClockHertz = 1.85e9;

using Sources = std::vector<std::shared_ptr<HostWeights>>;

// Calls `body` while none of the sources from `next` on writes to the host.
void hold_all(const Sources& sources, std::size_t next, const std::function<void()>& body) {
  if (next == sources.size()) return body();
  sources[next]->hold([&] { hold_all(sources, next + 1, body); });
}

}  // namespace

Session::Session(bool training, std::vector<at::Tensor> tensors, HostWeights::Turn turn, std::function<void()> copy,
                 std::shared_ptr<DeviceOptimizer> optimizer)
    : training_(training), tensors_(std::move(tensors)), optimizer_(std::move(optimizer)) {
  if (training_) {
    weights_ = std::make_shared<HostWeights>(std::move(turn), std::move(copy));
    announce();
  } else {
    for (auto& source : sources_of(tensors_)) followed_.emplace_back(std::move(source), 0);
  }
}

Session::~Session() {
  try {
    if (is_compiled()) save_to_host();
  } catch (const std::exception& error) {
    aspen::log::error("the weights could not be copied to the module when its executor went: {}", error.what());
  }
  if (training_ && is_compiled()) optimizer_->released();
  if (is_announced_) remove_source(weights_);
}

void Session::announce() {
  if (!training_ || is_announced_) return;
  add_source(tensors_, weights_);
  is_announced_ = true;
}

Model& Session::compiled(const char* who) const {
  if (!is_compiled()) {
    throw aspen::UserError("[{}] the model is not compiled yet; call it, or call compile() first.", who);
  }
  return *model_;
}

void Session::adopt(std::shared_ptr<Model> model, const Call& call) {
  announce();
  model_ = std::move(model);
  call_ = call;
}

void Session::reserve(std::optional<std::int64_t> device, const ShouldStop& should_stop) {
  if (device && lease_ == nullptr) lease_ = aspen::DeviceLease::take(*device, should_stop);
}

void Session::release_device() {
  if (!is_attached()) lease_.reset();
}

void Session::attach(const ShouldStop& should_stop) {
  Model& model = compiled("attachToDevice");
  if (model.is_attached()) {
    throw aspen::UserError("[attachToDevice] the model is attached to a device already.");
  }
  reserve(call_.device, should_stop);
  try {
    model.attach(call_.device);
    upload(PrivateBuffers::kKeptIfSame);
    if (training_) optimizer_->attached();
  } catch (...) {
    if (model.is_attached()) model.detach();
    release_device();
    throw;
  }
}

void Session::detach() {
  Model& model = compiled("detachFromDevice");
  if (!model.is_attached()) {
    throw aspen::UserError(
        "[detachFromDevice] Device is not attached: the model was detached before, or was never run.");
  }
  save_to_host();
  model.detach();
  release_device();
}

void Session::destroy() {
  if (!is_compiled()) return;
  const profiling::Tracepoint point(trace_channel(training_), "destroy");
  save_to_host();
  model_.reset();
  anchored_.clear();
  release_device();
  if (training_) optimizer_->released();
  if (is_announced_) remove_source(weights_);
  is_announced_ = false;
}

void Session::save(aspen::Sections& file, bool with_random_state) {
  const profiling::Tracepoint point(trace_channel(training_), "saveExecutableToFile");
  Model& model = compiled("save");
  refresh();
  save_to_host();
  if (!model.is_attached()) {  // what it would begin with
    upload(PrivateBuffers::kKeptIfSame);
    if (training_) optimizer_->before_run();
  }
  model.store(file, with_random_state);
}

void Session::take_weights_of_file() { compiled("load").download_weights(); }

std::vector<at::Tensor> Session::run(const std::vector<at::Tensor>& inputs, const std::function<bool()>& should_stop) {
  const profiling::Tracepoint point(trace_channel(training_), "modelExecution");
  refresh();
  if (training_) optimizer_->before_run();
  if (training_) weights_->set_stale();  // also if the call is interrupted: some updates may have been made
  anchored_.clear();
  std::map<std::string, OutputRequest> anchors;
  for (const Anchor& anchor : call_.anchors) anchors.emplace(anchor.name, anchor.output);
  std::vector<OutputRequest> outputs(model_->num_outputs(), call_.output);
  for (const std::string& name : model_->anchors()) outputs.push_back(anchors.at(name));
  std::vector<at::Tensor> results =
      model_->run(inputs, call_.device_iterations, call_.gradient_accumulation, outputs, should_stop);
  for (std::size_t i = 0; i < model_->anchors().size(); ++i) {
    anchored_[model_->anchors()[i]] = results[model_->num_outputs() + i];
  }
  results.resize(model_->num_outputs());
  keep_scalars();
  if (call_.logs_cycles) aspen::log::debug("the call took {} cycles", cycles().value_or(0));
  return results;
}

// -- tensors of the graph -------------------------------------------------------------------------------------------
// Anchors that the model does not know are numbers of the optimiser, which stay the same during a call.
void Session::keep_scalars() {
  if (!training_ || anchored_.size() == call_.anchors.size()) return;
  const optim::Tensors scalars = optimizer_->scalars();
  for (const Anchor& anchor : call_.anchors) {
    if (!anchored_.contains(anchor.name)) anchored_[anchor.name] = repeated(scalars.at(anchor.tensor), anchor.output);
  }
}

// A number as the device would return it from each micro-batch.
at::Tensor Session::repeated(const at::Tensor& scalar, const OutputRequest& output) const {
  const auto batches = returned_batches(output, call_.device_iterations, call_.gradient_accumulation);
  const bool is_sum = output.mode == aspen::OutputMode::kSum;
  const at::Tensor each = is_sum ? scalar.mul(call_.device_iterations * call_.gradient_accumulation) : scalar;
  return each.expand(stacked({}, batches * static_cast<std::int64_t>(num_replicas()))).clone();
}

at::Tensor Session::anchored(const std::string& name) const {
  const auto found = anchored_.find(name);
  if (found != anchored_.end()) return found->second.clone();
  throw aspen::UserError("[getAnchoredTensor] \"{}\" has no value yet: the model has not run; call it first.", name);
}

std::vector<std::string> Session::tensor_names() const {
  std::vector<std::string> names = compiled("getTensorNames").tensor_names();
  if (!training_) return names;
  for (const auto& [name, value] : optimizer_->scalars()) names.push_back(name);
  return names;
}

// -- times ----------------------------------------------------------------------------------------------------------
std::optional<std::int64_t> Session::cycles() const {
  const aspen::TransferTimes times = transfers();
  if (!times.has_run) return std::nullopt;
  return static_cast<std::int64_t>(times.computing * kClockHertz);
}

// -- weights --------------------------------------------------------------------------------------------------------
void Session::upload(PrivateBuffers private_buffers) {
  const Sources sources = sources_of(tensors_);
  for (const auto& source : sources) {
    if (source != weights_) source->sync();
  }
  for (auto& [source, version] : followed_) version = source->version();
  if (training_) weights_->set_current();  // the host may have changed them: those who follow take them too
  hold_all(sources, 0, [&] { model_->upload_weights(private_buffers); });
}

// Takes over what followed trainers have learnt since the last upload; one that went has left its weights behind.
void Session::refresh() {
  bool has_changed = false;
  for (const auto& [source, version] : followed_) {
    source->sync();
    has_changed |= source->version() != version;
  }
  if (has_changed) upload(PrivateBuffers::kOverwritten);
}

// What only the device knows, to the tensors of the module.
void Session::save_to_host() {
  if (training_ && weights_->is_stale()) {
    model_->download_weights();
    weights_->set_current();
  }
  model_->download_written();
  if (training_) optimizer_->save_state();
}

void Session::sync_sources() const {
  for (const auto& source : sources_of(tensors_)) source->sync();
}

void Session::copy_weights_to_host() {
  const profiling::Tracepoint point(trace_channel(training_), "copyWeightsToHost");
  compiled("copyWeightsToHost").download_weights();
  if (training_) weights_->set_current();
}

bool Session::copy_weights_to_host_if_needed() { return training_ && weights_->sync(); }

void Session::copy_weights_to_device() {
  const profiling::Tracepoint point(trace_channel(training_), "copyWeightsToDevice");
  compiled("copyWeightsToDevice");
  upload(PrivateBuffers::kOverwritten);
}

void Session::copy_buffers_to_device(const std::vector<std::string>& names) {
  Model& model = compiled("copyNamedBuffersToDevice");
  if (names.empty()) throw aspen::UserError("[copyNamedBuffersToDevice] needs options.updatableNamedBuffers.");
  for (const std::string& name : names) model.upload_tensor(name);
}

}  // namespace poptorch
