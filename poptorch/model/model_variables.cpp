// Model: what its variables hold, on the device or parked on the host: weights, settings and state of the optimiser.
#include <cstdlib>
#include <set>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "aspen/base/log.h"
#include "aspen/compiler/passes/hold_inputs.h"
#include "poptorch/capture/dispatch_scope.h"
#include "poptorch/capture/host_data.h"
#include "poptorch/capture/narrow.h"
#include "poptorch/model/model.h"

namespace poptorch {
namespace {

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// Integers are 0 and 1: whatever they count or choose, there are two of it in most models.
at::Tensor synthetic(const aspen::TensorType& type, SyntheticData kind, at::Generator& generator) {
  const c10::ScalarType dtype = host_dtype(type.dtype);
  if (kind == SyntheticData::kZeros) return at::zeros(type.shape, dtype);
  if (!c10::isFloatingType(dtype)) return at::randint(0, 2, type.shape, generator, at::kInt).to(dtype);
  const bool is_normal = kind == SyntheticData::kNormal;
  return (is_normal ? at::randn(type.shape, generator, at::kFloat) : at::rand(type.shape, generator, at::kFloat))
      .to(dtype);
}

constexpr const char* kSettings = "settings___";

std::string settings_name(std::size_t index) { return fmt::format("{}{}", kSettings, index); }

}  // namespace

bool Model::is_setting(const std::string& variable) { return variable.starts_with(kSettings); }

void Model::attach(std::optional<std::int64_t> device) {
  require_compiled("attach");
  if (is_attached()) throw aspen::UserError("[attach] the model is attached to its device already.");
  const char* measures = std::getenv("ASPEN_MEASURE_MEMORY");
  executor_ = std::make_unique<aspen::Executor>(
      program_, aspen::ExecutorOptions{.measures_memory = measures != nullptr && std::string_view(measures) == "1",
                                       .device = device});
  executor_->set_random_state(seed_, step_);
  for (const auto& [name, bytes] : parked_) executor_->write_variable(name, bytes);
  parked_.clear();
}

void Model::detach() {
  require_attached("detach");
  for (const aspen::ProgramVariable& variable : program_->variables) parked_[variable.name] = read_variable(variable);
  seed_ = executor_->seed();
  step_ = executor_->step();
  parked_transfers_ = executor_->transfers();
  executor_.reset();
  output_memory_.keep_at_most(0);
}

// Made once: every call finds the same.
void Model::fill_inputs(SyntheticData kind, std::uint64_t seed) {
  HostScope host;
  at::Generator generator = at::detail::createCPUGenerator(seed);
  for (const aspen::ProgramTensor& input : program_->inputs) {
    const auto* variable = find_variable(aspen::held_input_name(input.name));
    if (variable != nullptr) write_variable(*variable, to_graph_bytes(synthetic(input.type, kind, generator)));
  }
}

// -- weights --------------------------------------------------------------------------------------------------------
void Model::upload_weights(PrivateBuffers private_buffers) {
  require_compiled("upload_weights");
  for (const HostTensor& entry : tensors_) {
    const auto* variable = find_variable(entry.name);
    if (variable == nullptr) continue;
    if (!is_private(entry, *variable)) {
      upload(entry, *variable);
      continue;
    }
    Bytes bytes = host_bytes(entry);
    if (private_buffers == PrivateBuffers::kKeptIfSame && first_value(entry, *variable) == bytes) continue;
    write_variable(*variable, once_per_replica(bytes));
  }
  has_written_ = false;
}

// Straight from the memory of the host's tensor to the device, if there is one.
void Model::upload(const HostTensor& entry, const aspen::ProgramVariable& variable) {
  if (!is_attached()) return write_variable(variable, host_bytes(entry));
  const at::Tensor contents = to_graph_tensor(entry.tensor, described(entry));
  executor_->write_variable(variable.name, {static_cast<const std::byte*>(contents.data_ptr()), contents.nbytes()});
}

void Model::upload_tensor(const std::string& name) {
  require_compiled("upload_tensor");
  for (const HostTensor& entry : tensors_) {
    const auto* variable = entry.name == name ? find_variable(name) : nullptr;
    if (variable == nullptr) continue;
    Bytes bytes = host_bytes(entry);
    write_variable(*variable, is_private(entry, *variable) ? once_per_replica(bytes) : std::move(bytes));
  }
}

void Model::download_weights() {
  require_compiled("download_weights");
  for (const HostTensor& entry : tensors_) download(entry);
  has_written_ = false;
}

void Model::download_written() {
  require_compiled("download_written");
  if (!has_written_) return;
  const std::set<std::string> written(written_.begin(), written_.end());
  for (const HostTensor& entry : tensors_) {
    if (written.contains(entry.name)) download(entry);
  }
  has_written_ = false;
}

void Model::download(const HostTensor& entry) const {
  const auto* variable = find_variable(entry.name);
  if (variable == nullptr) return;
  const Bytes bytes = first_value(entry, *variable);
  if (bytes.empty()) return;
  // What the device has not changed keeps the digits that only the host's type can hold.
  const bool narrowed = entry.tensor.nbytes() != bytes.size();
  if (narrowed && host_bytes(entry) == bytes) return;
  from_graph_bytes(bytes.data(), graph_type(entry.tensor), entry.tensor);
}

std::string Model::described(const HostTensor& entry) {
  return fmt::format("{} \"{}\"", entry.is_parameter ? "parameter" : "buffer", entry.name);
}

Model::Bytes Model::host_bytes(const HostTensor& entry) const { return to_graph_bytes(entry.tensor, described(entry)); }

// Whether each replica has a value of its own, of which the host shows the first.
bool Model::is_private(const HostTensor& entry, const aspen::ProgramVariable& variable) const {
  return entry.grouping != variable.grouping;
}

Model::Bytes Model::once_per_replica(const Bytes& bytes) const {
  Bytes all;
  for (std::size_t replica = 0; replica < program_->replicas; ++replica)
    all.insert(all.end(), bytes.begin(), bytes.end());
  return all;
}

// What the host's tensor shows. Empty: nobody has written it yet.
Model::Bytes Model::first_value(const HostTensor& entry, const aspen::ProgramVariable& variable) const {
  Bytes bytes = read_variable(variable);
  if (is_private(entry, variable)) bytes.resize(bytes.size() / program_->replicas);
  return bytes;
}

// -- the optimiser --------------------------------------------------------------------------------------------------
void Model::set_settings(std::size_t group, const std::vector<float>& values) {
  require_compiled("set_settings");
  for (const std::size_t index : indices_of_group_.at(group)) write_settings(index, values);
}

void Model::set_parameter_settings(const std::string& parameter, const std::vector<float>& values) {
  require_compiled("set_parameter_settings");
  const auto index = index_of_parameter_.find(parameter);
  if (index != index_of_parameter_.end()) write_settings(index->second, values);
}

void Model::write_settings(std::size_t index, const std::vector<float>& values) {
  if (values.size() != aspen::kNumSettings) {
    throw aspen::UserError("[set_settings] {} was given {} numbers; expected {}.", settings_name(index), values.size(),
                           static_cast<std::size_t>(aspen::kNumSettings));
  }
  // A parameter that is not updated has no settings in the program.
  if (const auto* variable = find_variable(settings_name(index))) write_variable(*variable, bytes_of(values));
}

std::vector<std::string> Model::state_names() const {
  require_compiled("state_names");
  std::set<std::string> weights;
  for (const HostTensor& entry : tensors_) weights.insert(entry.name);
  std::vector<std::string> names;
  for (const aspen::ProgramVariable& variable : program_->variables) {
    if (!is_setting(variable.name) && !variable.name.starts_with(aspen::held_input_name("")) &&
        !weights.contains(variable.name))
      names.push_back(variable.name);
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

// -- all variables --------------------------------------------------------------------------------------------------
const aspen::ProgramVariable* Model::find_variable(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : found->second;
}

// As the host sees it: one value, or one for each group of replicas (or replica) along a first axis.
// State that replicas keep flat shards of has the shape of its parameter.
aspen::TensorType Model::host_type(const aspen::ProgramVariable& variable) const {
  aspen::TensorType type = variable.type;
  if (variable.sharded) {
    for (const HostTensor& entry : tensors_) {
      if (variable.name.ends_with("___" + entry.name)) type.shape = find_variable(entry.name)->type.shape;
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
