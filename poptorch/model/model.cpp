#include "poptorch/model/model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "aspen/base/log.h"
#include "aspen/compiler/ir/printer.h"
#include "aspen/compiler/placement/part_costs.h"
#include "aspen/profiler/host_events.h"
#include "aspen/program_file/choice_file.h"
#include "poptorch/capture/host_data.h"
#include "poptorch/capture/narrow.h"
#include "poptorch/capture/recorder.h"
#include "poptorch/model/backends.h"
#include "poptorch/model/executable_cache.h"
#include "poptorch/model/graph_export.h"
#include "poptorch/model/summary.h"
#include "poptorch/model/trace_channel.h"
#include "poptorch/profiling.h"

namespace poptorch {
namespace {

void check_not_empty(const at::Tensor& tensor, const char* kind, const std::string& name) {
  if (tensor.numel() > 0) return;
  throw aspen::UserError("[capture] {} \"{}\" has shape {}: tensors without elements cannot be part of a model.", kind,
                         name, aspen::to_string(shape_of(tensor)));
}

// The memory a tensor spreads over, as one row. For buffers that show a number several times (expand), or not all that
// lies between their first and last: what is kept on the device is their memory, and they are views of it.
at::Tensor memory_of(const at::Tensor& tensor) {
  std::int64_t size = 1;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) size += (tensor.size(d) - 1) * tensor.stride(d);
  return tensor.detach().as_strided({size}, {1}, tensor.storage_offset());
}

}  // namespace

Model::Model(bool training) : training_(training) {}

Model::~Model() = default;

void Model::add_tensor(const std::string& name, const at::Tensor& tensor, bool is_parameter) {
  const char* kind = is_parameter ? "parameter" : "buffer";
  check_not_empty(tensor, kind, name);
  if (!tensor.device().is_cpu() || tensor.layout() != c10::kStrided) {
    throw aspen::UserError(
        "[capture] {} \"{}\" is a {} tensor on device {}; a model has dense tensors on the CPU. Convert it with "
        ".to_dense() or .cpu().",
        kind, name, c10::str(tensor.layout()), tensor.device().str());
  }
  const bool is_dense = tensor.is_non_overlapping_and_dense();
  if (is_parameter && !is_dense) {
    throw aspen::UserError(
        "[capture] {} \"{}\" of shape {} has gaps or overlaps in memory; assign it a contiguous() "
        "copy.",
        kind, name, aspen::to_string(shape_of(tensor)));
  }
  if (!tensor_names_.insert(name).second) {
    throw aspen::UserError("[capture] there are two tensors named \"{}\".", name);
  }
  const at::Tensor whole = is_dense ? tensor : memory_of(tensor);
  tensors_.push_back({name, whole, is_parameter, is_parameter && tensor.requires_grad(), whole, {}});
}

void Model::add_grouped_parameter(const std::string& name, const at::Tensor& tensor, const at::Tensor& seen,
                                  const aspen::ReplicaGrouping& grouping, std::size_t replicas) {
  if (aspen::has_size(grouping.kind) && (grouping.size < 1 || replicas % grouping.size != 0)) {
    throw aspen::UserError(
        "[replicaGrouping] parameter \"{}\" has {} replicas in each group, which does not divide the replication "
        "factor "
        "{}.",
        name, grouping.size, replicas);
  }
  const std::size_t values = grouping.returns_all ? replicas : grouping.num_groups(replicas);
  if (tensor.size(0) != static_cast<std::int64_t>(values)) {
    throw aspen::UserError(
        "[replicaGrouping] parameter \"{}\" has shape {}; there are {} {}, so its first dimension must be {}: one "
        "value "
        "for each of them.",
        name, aspen::to_string(shape_of(tensor)), values, grouping.returns_all ? "replicas" : "groups of replicas",
        values);
  }
  add_tensor(name, tensor, true);
  tensors_.back().seen = seen;
  tensors_.back().grouping = grouping;
}

std::vector<std::pair<std::string, at::Tensor>> Model::trainable_parameters() const {
  std::vector<std::pair<std::string, at::Tensor>> found;
  for (const HostTensor& entry : tensors_) {
    if (entry.trainable) found.emplace_back(entry.name, entry.tensor);
  }
  return found;
}

std::vector<ModelOutput> Model::capture(const Forward& forward, const std::vector<at::Tensor>& inputs,
                                        const std::vector<std::string>& names) {
  if (captured_) throw aspen::UserError("[capture] this model has been captured already.");
  const profiling::Tracepoint point(trace_channel(training_), "graphPreprocessing");
  const auto start = std::chrono::steady_clock::now();
  recorder_ = std::make_unique<Recorder>(graph_, training_);
  Recorder& recorder = *recorder_;
  Recorder::Active active(recorder);
  if (parts_ != Parts::kNone) recorder.count_parts(parts_ == Parts::kByParameters);
  for (const HostTensor& entry : tensors_) {
    const bool trainable = entry.is_parameter && entry.seen.requires_grad();
    const auto kind = entry.is_parameter ? aspen::VariableKind::kParameter : aspen::VariableKind::kBuffer;
    recorder.add_variable(entry.name, entry.seen, kind, trainable);
  }
  std::vector<at::Tensor> traced;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_not_empty(inputs[i], "input", names.at(i));
    examples_.push_back({names[i], inputs[i].scalar_type(), inputs[i].sizes().vec()});
    traced.push_back(recorder.add_input(names[i], inputs[i]));
  }
  const std::vector<at::Tensor> returned = recorder.run([&] { return forward(traced); });
  std::vector<ModelOutput> outputs;
  for (const at::Tensor& tensor : returned) {
    if (!recorder.is_traced(tensor)) {
      outputs.push_back({.host = tensor});
      continue;
    }
    graph_dtype(tensor.scalar_type());  // a complex tensor is not a result
    graph_.add_output(fmt::format("output{}", num_outputs_), recorder.value_of(tensor));
    outputs.push_back({true, num_outputs_++, tensor.scalar_type(), shape_of(tensor), {}});
  }
  resolve_overlap_marks(graph_, recorder.overlap_marks);
  const std::vector<std::string> written_variables = recorder.written_variables();
  const std::set<std::string> written_names(written_variables.begin(), written_variables.end());
  for (const HostTensor& entry : tensors_) {
    const bool is_written = written_names.contains(entry.name);
    if (is_written) written_.push_back(entry.name);
    if (is_written && !entry.is_parameter) written_buffers_.push_back(entry.name);
  }
  recorder.finish();
  for (const Recorder::WrittenInput& written : recorder.written_inputs()) {
    graph_.add_output(fmt::format("{}_after", names[written.index]), written.value);
    written_inputs_.push_back(written.index);
  }
  check_integer_numbers(graph_);
  num_stages_ = recorder.num_stages();
  stage_parts_ = recorder.parts();
  host_calls_.assign(recorder.host_calls().begin(), recorder.host_calls().end());
  for (const HostTensor& entry : tensors_) {
    if (aspen::Variable* variable = graph_.find_variable(entry.name)) {
      variable->grouping = entry.grouping;
    } else {
      aspen::log::trace("{} is not used by the model", entry.name);
    }
  }
  captured_ = true;
  captured_from_ = start;
  captured_until_ = std::chrono::steady_clock::now();
  const std::chrono::duration<double, std::milli> elapsed = captured_until_ - start;
  aspen::log::debug("captured {}: {:.2f} ms, {} ops", training_ ? "training" : "inference", elapsed.count(),
                    graph_.ops().size());
  return outputs;
}

void Model::compile(const CompileSettings& settings) {
  begin_profile(settings);
  const profiling::Tracepoint point(trace_channel(training_), "modelCompilation");
  if (!captured_) throw aspen::UserError("[compile] capture the model first.");
  if (is_compiled()) throw aspen::UserError("[compile] this model has been compiled already.");
  std::vector<std::string> listed;
  const aspen::CompileOptions options = compile_options(settings, listed);
  key_ = program_key(graph_, options);
  const auto start = std::chrono::steady_clock::now();
  make_program(options, settings);
  end_phase("compilation", start);
  recorder_.reset();
  take_program(options, settings);
  warn_of_narrow_tensors();
  if (training_) warn_of_unreached(listed);
  if (!is_from_file_) export_graph(graph_);
}

// What the compiler is told. listed: all parameters of the optimiser.
aspen::CompileOptions Model::compile_options(const CompileSettings& settings, std::vector<std::string>& listed) {
  if (!settings.name.empty()) graph_.set_name(settings.name);
  aspen::CompileOptions options = settings.options;
  options.training = training_;
  options.num_stages = num_stages_;
  if (profiler_ != nullptr) {
    options.timed = [this](const std::string& phase, std::chrono::nanoseconds duration) {
      profiler_->add_phase("compilation/" + phase, duration);
    };
  }
  options.stage_cut.parts = stage_parts_;
  options.stage_cut.observe = [this](const aspen::PartCosts& costs) {
    part_costs_ = std::make_shared<aspen::PartCosts>(costs);
  };
  options.holds_inputs = settings.synthetic_data != SyntheticData::kOff;
  if (captured_) keep_buffers_apart(options.replicas);
  listed = split_groups(options.optimizer);
  backend_ = make_backend(settings.backend.empty() ? default_backend() : settings.backend);
  return options;
}

void Model::make_program(const aspen::CompileOptions& options, const CompileSettings& settings) {
  const auto make = [&] {
    aspen::CompileOptions with_choices = options;
    const auto folder = aspen::choice_folder();
    const bool may_time = !settings.cache.empty() && !folder.empty();  // a program that is kept keeps its kernels
    if (may_time) with_choices.choices = aspen::choices_in(folder, *backend_);
    return aspen::compile(graph_, with_choices, *backend_);
  };
  const char* graph_is_for = asks_for_graph();
  if (!settings.cache.empty() && graph_is_for != nullptr) {
    aspen::log::debug("[cache] not used: {} asks for the graph", graph_is_for);
  }
  if (settings.cache.empty() || graph_is_for != nullptr) {
    program_ = make();
    return;
  }
  auto [program, is_hit] = ExecutableCache(settings.cache, cache_limit()).find_or_make(key_, *backend_, make);
  program_ = std::move(program);
  is_from_file_ = is_hit;
  if (is_hit && options.progress) options.progress(1);
}

void Model::take_program(const aspen::CompileOptions& options, const CompileSettings& settings) {
  for (const aspen::ProgramVariable& variable : program_->variables) variables_.emplace(variable.name, &variable);
  find_anchors(options.anchors);
  seed_ = settings.seed;
  if (options.holds_inputs) fill_inputs(settings.synthetic_data, settings.seed);
  for (std::size_t group = 0; group < settings.settings.size(); ++group) set_settings(group, settings.settings[group]);
  if (profiler_ != nullptr) profile_program(options);
}

void Model::begin_profile(const CompileSettings& settings) {
  if (!settings.profile) return;
  if (!captured_) captured_from_ = captured_until_ = std::chrono::steady_clock::now();
  profiler_ = std::make_unique<aspen::Profiler>(*settings.profile, captured_from_);
  if (!captured_) return;
  profiler_->add_phase("capture", captured_until_ - captured_from_);
  aspen::host_events::add(std::string(trace_channel(training_)), "graphPreprocessing", captured_from_, captured_until_);
}

void Model::end_phase(const char* name, std::chrono::steady_clock::time_point start) {
  if (profiler_ != nullptr) profiler_->add_phase(name, std::chrono::steady_clock::now() - start);
}

void Model::profile_program(const aspen::CompileOptions& options) {
  aspen::ProfiledProgram profiled{.program = program_,
                                  .backend = backend_->fingerprint(),
                                  .execution = options.execution == aspen::Execution::kPhased ? "phased" : "",
                                  .device_iterations = options.device_iterations,
                                  .is_loaded = is_from_file_};
  profiler_->set_program(std::move(profiled));
  aspen::log::info("the profile of \"{}\" is written to {}", program_->name, profiler_->folder().string());
}

const std::vector<aspen::StageStart>& Model::stage_starts() const {
  require_compiled("stageBlocks");
  return program_->stage_starts;
}

const aspen::PartCosts& Model::part_costs() const {
  if (part_costs_ != nullptr) return *part_costs_;
  throw aspen::UserError("[part_costs] this model was not cut into stages by the compiler, or comes from a file.");
}

std::string Model::last_capture_error() const { return recorder_ == nullptr ? "" : recorder_->last_error(); }

void Model::find_anchors(const std::vector<aspen::Anchor>& anchors) {
  std::map<std::string, std::size_t> outputs;
  for (std::size_t i = num_outputs_ + written_inputs_.size(); i < program_->outputs.size(); ++i) {
    outputs.emplace(program_->outputs[i].name, i);
  }
  for (const aspen::Anchor& anchor : anchors) {
    anchors_.push_back(anchor.name);
    anchor_outputs_.push_back(outputs.at(aspen::kAnchorPrefix + anchor.name));
  }
}

// Each replica has its own idea of a buffer that the model writes.
void Model::keep_buffers_apart(std::size_t replicas) {
  if (replicas == 1) return;
  for (const std::string& name : written_buffers_) {
    graph_.find_variable(name)->grouping = {.kind = aspen::ReplicaGrouping::Kind::kNone, .returns_all = true};
  }
}

// By the model; of one that was not captured the file has told so.
bool Model::is_used(const std::string& variable) const {
  return captured_ ? graph_.find_variable(variable) != nullptr : index_of_parameter_.contains(variable);
}

// Makes a group of each parameter, so that each can be given numbers of its own. Parameters the model does not use have
// no place in the graph. Returns all that were listed.
std::vector<std::string> Model::split_groups(aspen::OptimizerSpec& optimizer) {
  std::vector<std::string> listed;
  std::vector<aspen::OptimizerSpec::Group> split;
  for (const auto& group : optimizer.groups) {
    auto& indices = indices_of_group_.emplace_back();
    for (const std::string& name : group.parameters) {
      listed.push_back(name);
      if (!is_used(name)) continue;
      indices.push_back(split.size());
      index_of_parameter_[name] = split.size();
      split.push_back(group);
      split.back().parameters = {name};
    }
  }
  optimizer.groups = std::move(split);
  return listed;
}

void Model::warn_of_narrow_tensors() const {
  std::vector<std::string> names;
  for (const HostTensor& entry : tensors_) {
    if (entry.tensor.scalar_type() == c10::ScalarType::Double && find_variable(entry.name)) names.push_back(entry.name);
  }
  if (names.empty()) return;
  aspen::log::warn("float64 parameters and buffers are kept as float32 on the device: {}", summary(names));
}

void Model::warn_of_unreached(const std::vector<std::string>& listed) const {
  const std::set<std::string> updated(program_->tensor_names.begin(), program_->tensor_names.end());
  std::set<const void*> updated_memory;  // a parameter tied to another is updated with it
  for (const HostTensor& entry : tensors_) {
    if (updated.contains("UpdatedVar___" + entry.name))
      updated_memory.insert(entry.seen.storage().unsafeGetStorageImpl());
  }
  const std::set<std::string> all_listed(listed.begin(), listed.end());
  std::vector<std::string> unreached;
  for (const HostTensor& entry : tensors_) {
    if (!entry.trainable || updated_memory.contains(entry.seen.storage().unsafeGetStorageImpl())) continue;
    if (all_listed.contains(entry.name)) unreached.push_back(entry.name);
  }
  if (unreached.empty()) return;
  aspen::log::warn(
      "no gradient reaches parameters that are to be trained, which keep their values: {}. Use them in "
      "forward, or freeze them with requires_grad_(False)",
      summary(unreached));
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

std::string Model::graph_text() const {
  if (!is_from_file_) return aspen::to_text(graph_);
  throw aspen::UserError(
      "[graphText] the program was not compiled here but comes from a file or the cache, which do not hold its graph; "
      "compile the model without them to see it.");
}

std::vector<aspen::DeviceTime> Model::times() const {
  require_attached("times");
  return executor_->times();
}

aspen::TransferTimes Model::transfers() const {
  aspen::TransferTimes times = is_attached() ? executor_->transfers() : parked_transfers_;
  if (times.outputs.size() > num_outputs_) times.outputs.resize(num_outputs_);
  return times;
}

std::vector<aspen::DeviceMemory> Model::memory() const {
  require_attached("memory");
  return executor_->memory();
}

std::vector<aspen::DeviceFootprint> Model::footprint() const {
  require_compiled("memoryFootprint");
  return aspen::footprint_of(*program_);
}

void Model::require_compiled(const char* who) const {
  if (!is_compiled()) throw aspen::UserError("[{}] the model is not compiled yet.", who);
}

void Model::require_attached(const char* who) const {
  require_compiled(who);
  if (!is_attached()) throw aspen::UserError("[{}] the model is not attached to a device.", who);
}

}  // namespace poptorch
