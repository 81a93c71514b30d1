#include "poptorch/model/model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "aspen/base/log.h"
#include "aspen/compiler/ir/printer.h"
#include "poptorch/capture/host_data.h"
#include "poptorch/capture/recorder.h"
#include "poptorch/model/backends.h"

namespace poptorch {
namespace {

void check_not_empty(const at::Tensor& tensor, const char* kind, const std::string& name) {
  if (tensor.numel() > 0) return;
  throw aspen::UserError("[capture] {} \"{}\" has shape {}: tensors without elements cannot be part of a model.", kind,
                         name, aspen::to_string(shape_of(tensor)));
}

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::string settings_name(std::size_t group) { return fmt::format("settings___{}", group); }

}  // namespace

Model::Model(bool training) : training_(training) {}

Model::~Model() = default;

void Model::add_tensor(const std::string& name, const at::Tensor& tensor, bool is_parameter) {
  const char* kind = is_parameter ? "parameter" : "buffer";
  check_not_empty(tensor, kind, name);
  if (!tensor.device().is_cpu() || tensor.layout() != c10::kStrided) {
    throw aspen::UserError("[capture] {} \"{}\" is a {} tensor on device {}; wrap a model of dense CPU tensors.", kind,
                           name, c10::str(tensor.layout()), tensor.device().str());
  }
  if (!tensor.is_non_overlapping_and_dense()) {
    throw aspen::UserError(
        "[capture] {} \"{}\" of shape {} has gaps or overlaps in memory; assign it a contiguous() "
        "copy.",
        kind, name, aspen::to_string(shape_of(tensor)));
  }
  for (const HostTensor& known : tensors_) {
    if (known.name == name) throw aspen::UserError("[capture] there are two tensors named \"{}\".", name);
  }
  tensors_.push_back({name, tensor, is_parameter, tensor, {}});
}

void Model::add_grouped_parameter(const std::string& name, const at::Tensor& tensor, const at::Tensor& seen,
                                  const aspen::ReplicaGrouping& grouping) {
  add_tensor(name, tensor, true);
  tensors_.back().seen = seen;
  tensors_.back().grouping = grouping;
}

std::vector<ModelOutput> Model::capture(const Forward& forward, const std::vector<at::Tensor>& inputs,
                                        const std::vector<std::string>& names) {
  if (captured_) throw aspen::UserError("[capture] this model has been captured already.");
  recorder_ = std::make_unique<Recorder>(graph_, training_);
  Recorder& recorder = *recorder_;
  Recorder::Active active(recorder);
  for (const HostTensor& entry : tensors_) {
    const bool trainable = entry.is_parameter && entry.seen.requires_grad();
    const auto kind = entry.is_parameter ? aspen::VariableKind::kParameter : aspen::VariableKind::kBuffer;
    recorder.add_variable(entry.name, entry.seen, kind, trainable);
  }
  std::vector<at::Tensor> traced;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_not_empty(inputs[i], "input", names.at(i));
    traced.push_back(recorder.add_input(names[i], inputs[i]));
  }
  const std::vector<at::Tensor> returned = recorder.run([&] { return forward(traced); });
  std::vector<ModelOutput> outputs;
  for (const at::Tensor& tensor : returned) {
    if (!recorder.is_traced(tensor)) {
      outputs.push_back({.host = tensor});
      continue;
    }
    graph_.add_output(fmt::format("output{}", num_outputs_), recorder.value_of(tensor));
    outputs.push_back({true, num_outputs_++, tensor.scalar_type(), shape_of(tensor), {}});
  }
  resolve_overlap_marks(graph_, recorder.overlap_marks);
  const std::vector<std::string> written_names = recorder.written_variables();
  for (const HostTensor& entry : tensors_) {
    const bool is_written = std::find(written_names.begin(), written_names.end(), entry.name) != written_names.end();
    if (is_written && !entry.is_parameter) written_buffers_.push_back(entry.name);
  }
  recorder.finish();
  for (const Recorder::WrittenInput& written : recorder.written_inputs()) {
    graph_.add_output(fmt::format("{}_after", names[written.index]), written.value);
    written_inputs_.push_back(written.index);
  }
  num_stages_ = recorder.num_stages();
  host_calls_.assign(recorder.host_calls().begin(), recorder.host_calls().end());
  for (const HostTensor& entry : tensors_) {
    if (aspen::Variable* variable = graph_.find_variable(entry.name)) {
      variable->grouping = entry.grouping;
    } else {
      aspen::log::trace("{} is not used by the model", entry.name);
    }
  }
  captured_ = true;
  return outputs;
}

void Model::compile(const CompileSettings& settings) {
  if (!captured_) throw aspen::UserError("[compile] capture the model first.");
  if (is_compiled()) throw aspen::UserError("[compile] this model has been compiled already.");
  aspen::CompileOptions options = settings.options;
  options.training = training_;
  options.num_stages = num_stages_;
  // Parameters the model does not use have no place in the graph.
  for (auto& group : options.optimizer.groups) {
    std::erase_if(group.parameters, [&](const std::string& name) { return graph_.find_variable(name) == nullptr; });
  }
  backend_ = make_backend(settings.backend.empty() ? default_backend() : settings.backend);
  program_ = aspen::compile(graph_, options, *backend_);
  recorder_.reset();
  seed_ = settings.seed;
  for (std::size_t group = 0; group < settings.settings.size(); ++group) set_settings(group, settings.settings[group]);
}

std::string Model::last_capture_error() const { return recorder_ == nullptr ? "" : recorder_->last_error(); }

void Model::attach() {
  require_compiled("attach");
  if (is_attached()) throw aspen::UserError("[attach] the model is attached to its device already.");
  const char* measures = std::getenv("ASPEN_MEASURE_MEMORY");
  executor_ = std::make_unique<aspen::Executor>(
      program_, aspen::ExecutorOptions{.measures_memory = measures != nullptr && std::string_view(measures) == "1"});
  executor_->set_random_state(seed_, step_);
  for (const auto& [name, bytes] : parked_) executor_->write_variable(name, bytes);
  parked_.clear();
}

void Model::detach() {
  require_attached("detach");
  for (const aspen::ProgramVariable& variable : program_->variables) parked_[variable.name] = read_variable(variable);
  seed_ = executor_->seed();
  step_ = executor_->step();
  executor_.reset();
}

void Model::upload_weights() {
  require_compiled("upload_weights");
  for (const HostTensor& entry : tensors_) {
    if (const auto* variable = find_variable(entry.name)) write_variable(*variable, to_graph_bytes(entry.tensor));
  }
}

void Model::download_weights() {
  require_compiled("download_weights");
  for (const HostTensor& entry : tensors_) {
    const auto* variable = find_variable(entry.name);
    if (variable == nullptr) continue;
    const Bytes bytes = read_variable(*variable);
    if (bytes.empty()) continue;
    // What the device has not changed keeps the digits that only the host's type can hold.
    const bool narrowed = entry.tensor.nbytes() != bytes.size();
    if (narrowed && to_graph_bytes(entry.tensor) == bytes) continue;
    from_graph_bytes(bytes.data(), host_type(*variable), entry.tensor);
  }
}

void Model::set_settings(std::size_t group, const std::vector<float>& values) {
  require_compiled("set_settings");
  if (values.size() != aspen::kNumSettings) {
    throw aspen::UserError("[set_settings] group {} was given {} numbers; expected {}.", group, values.size(),
                           static_cast<std::size_t>(aspen::kNumSettings));
  }
  // A group whose parameters are all unused has no settings in the program.
  if (const auto* variable = find_variable(settings_name(group))) write_variable(*variable, bytes_of(values));
}

std::vector<std::string> Model::state_names() const {
  require_compiled("state_names");
  std::set<std::string> weights;
  for (const HostTensor& entry : tensors_) weights.insert(entry.name);
  std::vector<std::string> names;
  for (const aspen::ProgramVariable& variable : program_->variables) {
    const bool is_setting = variable.name.starts_with("settings___");
    if (!is_setting && !variable.accumulator && !weights.contains(variable.name)) names.push_back(variable.name);
  }
  return names;
}

at::Tensor Model::read_state(const std::string& name) const {
  require_compiled("read_state");
  const auto* variable = find_variable(name);
  if (variable == nullptr) throw aspen::UserError("[read_state] there is no state \"{}\".", name);
  const aspen::TensorType type = host_type(*variable);
  Bytes bytes = read_variable(*variable);
  if (bytes.empty()) {
    return from_graph_bytes(Bytes(type.bytes()).data(), type, host_dtype(type.dtype)).fill_(variable->initial).clone();
  }
  return from_graph_bytes(bytes.data(), type, host_dtype(type.dtype)).clone();
}

void Model::write_state(const std::string& name, const at::Tensor& tensor) {
  require_compiled("write_state");
  const auto* variable = find_variable(name);
  if (variable == nullptr) {
    throw aspen::UserError("[write_state] there is no state \"{}\"; {}", name,
                           aspen::near_matches(name, state_names()));
  }
  const aspen::TensorType type = host_type(*variable);
  if (shape_of(tensor) != type.shape) {
    throw aspen::UserError("[write_state] \"{}\" has shape {}, not {}.", name, aspen::to_string(type.shape),
                           aspen::to_string(shape_of(tensor)));
  }
  write_variable(*variable, to_graph_bytes(tensor.to(host_dtype(type.dtype))));
}

std::pair<std::uint64_t, std::uint64_t> Model::random_state() const {
  if (is_attached()) return {executor_->seed(), executor_->step()};
  return {seed_, step_};
}

void Model::set_random_state(std::uint64_t seed, std::uint64_t step) {
  seed_ = seed;
  step_ = step;
  if (is_attached()) executor_->set_random_state(seed, step);
}

std::vector<std::string> Model::tensor_names() const {
  std::vector<std::string> names;
  for (const auto& input : graph_.inputs()) names.push_back(input->name());
  for (const auto& variable : graph_.variables()) names.push_back(variable->name);
  for (const auto& op : graph_.ops()) {
    for (const aspen::Value* output : op->outputs()) {
      const std::string& scope = op->location.scope;
      names.push_back(!output->name().empty()
                          ? output->name()
                          : fmt::format("{}{}{}:{}", scope, scope.empty() ? "" : "/", op->name(), output->id()));
    }
  }
  return names;
}

std::string Model::graph_text() const { return aspen::to_text(graph_); }

std::set<std::int64_t> Model::devices() const {
  std::set<std::int64_t> devices;
  for (const auto& op : graph_.ops()) devices.insert(op->placement.device);
  return devices;
}

std::vector<aspen::DeviceTime> Model::times() const {
  require_attached("times");
  return executor_->times();
}

std::vector<aspen::DeviceMemory> Model::memory() const {
  require_attached("memory");
  return executor_->memory();
}

void Model::require_compiled(const char* who) const {
  if (!is_compiled()) throw aspen::UserError("[{}] the model is not compiled yet.", who);
}

void Model::require_attached(const char* who) const {
  require_compiled(who);
  if (!is_attached()) throw aspen::UserError("[{}] the model is not attached to a device.", who);
}

const aspen::ProgramVariable* Model::find_variable(const std::string& name) const {
  for (const aspen::ProgramVariable& variable : program_->variables) {
    if (variable.name == name) return &variable;
  }
  return nullptr;
}

// As the host sees it: one value, or one for each group of replicas (or replica) along a first axis.
// State that replicas keep flat shards of has the shape of its parameter.
aspen::TensorType Model::host_type(const aspen::ProgramVariable& variable) const {
  aspen::TensorType type = variable.type;
  if (variable.sharded) {
    for (const HostTensor& entry : tensors_) {
      if (variable.name.ends_with("___" + entry.name)) type.shape = shape_of(entry.seen);
    }
  }
  const aspen::ReplicaGrouping& grouping = variable.grouping;
  if (grouping.kind == aspen::ReplicaGrouping::Kind::kAll) return type;
  const std::size_t values = grouping.returns_all ? program_->replicas : grouping.num_groups(program_->replicas);
  type.shape.insert(type.shape.begin(), static_cast<std::int64_t>(values));
  return type;
}

// Empty: nobody has written it yet.
Model::Bytes Model::read_variable(const aspen::ProgramVariable& variable) const {
  if (!is_attached()) {
    const auto parked = parked_.find(variable.name);
    return parked == parked_.end() ? Bytes{} : parked->second;
  }
  Bytes bytes(executor_->host_bytes(variable.name));
  executor_->read_variable(variable.name, bytes);
  return bytes;
}

void Model::write_variable(const aspen::ProgramVariable& variable, Bytes bytes) {
  if (is_attached()) {
    executor_->write_variable(variable.name, bytes);
  } else {
    parked_[variable.name] = std::move(bytes);
  }
}

}  // namespace poptorch
