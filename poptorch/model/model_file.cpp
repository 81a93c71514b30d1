// Model on disk: the section "model" beside those of the program (docs/program-format.md). It holds what the host knows
// of the program: which variables are its tensors, which outputs are results, what it was captured with.
#include <algorithm>
#include <set>

#include "aspen/program_file/program_fields.h"
#include "aspen/program_file/program_file.h"
#include "poptorch/capture/host_data.h"
#include "poptorch/capture/stored_work.h"
#include "poptorch/model/backends.h"
#include "poptorch/model/model.h"
#include "poptorch/model/trace_channel.h"
#include "poptorch/profiling.h"

namespace poptorch {

constexpr const char* kModel = "model";

// A parameter or buffer.
struct StoredRole {
  std::string name;
  aspen::TensorType type;
  bool is_parameter = false, trainable = false;
  aspen::ReplicaGrouping grouping;
};

struct StoredModel {
  bool training = false, has_random_state = false;
  ProgramKey key;
  std::int64_t num_stages = 1;
  std::vector<ExampleInput> examples;
  std::vector<StoredRole> tensors;
  std::uint64_t num_outputs = 0;
  std::vector<std::uint64_t> written_inputs;
  std::vector<std::string> written, written_buffers, host_calls;
  std::vector<std::string> updated;  // parameters of the optimiser that the model uses
};

template <class Stream>
void visit(Stream& stream, ProgramKey::Setting& setting) {
  stream(setting.name, setting.value);
}
template <class Stream>
void visit(Stream& stream, ProgramKey& key) {
  stream(key.graph, key.sources, key.settings, key.unknown_function);
}
template <class Stream>
void visit(Stream& stream, ExampleInput& input) {
  auto type = static_cast<std::int64_t>(input.type);
  stream(input.name, type, input.shape);
  if constexpr (Stream::kReads) {
    const bool is_type = type >= 0 && type < static_cast<std::int64_t>(c10::ScalarType::NumOptions);
    input.type = is_type ? static_cast<c10::ScalarType>(type) : c10::ScalarType::Undefined;
    const auto is_extent = [](std::int64_t extent) { return extent > 0; };
    if (!is_supported(input.type) || !std::all_of(input.shape.begin(), input.shape.end(), is_extent)) {
      throw aspen::FileError("input \"{}\" has type {} and shape {}", input.name, type, aspen::to_string(input.shape));
    }
  }
}
template <class Stream>
void visit(Stream& stream, StoredRole& role) {
  stream(role.name, role.type, role.is_parameter, role.trainable, role.grouping);
}
template <class Stream>
void visit(Stream& stream, StoredModel& model) {
  stream(model.training, model.has_random_state, model.key, model.num_stages, model.examples, model.tensors);
  stream(model.num_outputs, model.written_inputs, model.written, model.written_buffers, model.host_calls,
         model.updated);
}

namespace {

StoredModel stored_model(const aspen::Sections& file) { return from_bytes<StoredModel>(file.get(kModel)); }

std::string role_text(const StoredRole& role) {
  return fmt::format("a {}{} {}{}",
                     role.trainable      ? "trainable "
                     : role.is_parameter ? "frozen "
                                         : "",
                     role.is_parameter ? "parameter" : "buffer", aspen::to_string(role.type),
                     role.grouping == aspen::ReplicaGrouping() ? "" : " of groups of replicas");
}

}  // namespace

void Model::store(aspen::Sections& file, bool with_random_state) const {
  require_compiled("save");
  StoredModel stored{.training = training_, .has_random_state = with_random_state, .key = key_};
  stored.num_stages = num_stages_;
  stored.examples = examples_;
  for (const HostTensor& entry : tensors_) {
    stored.tensors.push_back(
        {entry.name, graph_type(entry.tensor), entry.is_parameter, entry.trainable, entry.grouping});
  }
  stored.num_outputs = num_outputs_;
  stored.written_inputs.assign(written_inputs_.begin(), written_inputs_.end());
  stored.written = written_;
  stored.written_buffers = written_buffers_;
  stored.host_calls = host_calls_;
  for (const auto& [name, index] : index_of_parameter_) stored.updated.push_back(name);
  file.set(kModel, bytes_of(stored));
  aspen::store_program(file, *program_, *backend_);
  aspen::ProgramState state;
  if (with_random_state) std::tie(state.seed, state.step) = random_state();
  for (const aspen::ProgramVariable& variable : program_->variables) {
    Bytes bytes = read_variable(variable);
    if (!bytes.empty()) state.variables.emplace(variable.name, std::move(bytes));
  }
  aspen::store_state(file, state);
}

std::vector<ExampleInput> Model::example_inputs(const aspen::Sections& file) { return stored_model(file).examples; }

bool Model::is_training(const aspen::Sections& file) { return stored_model(file).training; }

void Model::load(const aspen::Sections& file, const CompileSettings& settings, FileContents contents) {
  begin_profile(settings);
  const profiling::Tracepoint point(trace_channel(training_), "loadExecutable");
  const auto start = std::chrono::steady_clock::now();
  if (is_compiled()) throw aspen::UserError("[load] this model has been compiled already.");
  const StoredModel stored = stored_model(file);
  if (stored.training != training_) {
    throw aspen::FileError("it holds a model that {}, and this one {}", stored.training ? "trains" : "does not train",
                           training_ ? "does" : "does not");
  }
  check_tensors(stored.tensors);
  if (!captured_) take_interface(stored);
  std::vector<std::string> listed;
  const aspen::CompileOptions options = compile_options(settings, listed);
  key_ = captured_ ? program_key(graph_, options)
                   : ProgramKey{stored.key.graph, stored.key.sources, settings_of(options), ""};
  check_key(stored);
  auto program = aspen::load_program(file, *backend_, read_host_function);
  check_host_calls(*program);
  if (program->inputs.size() != examples_.size() ||
      program->outputs.size() < num_outputs_ + written_inputs_.size() + options.anchors.size()) {
    throw aspen::FileError("its program has {} inputs and {} outputs", program->inputs.size(), program->outputs.size());
  }
  program_ = std::move(program);
  recorder_.reset();
  is_from_file_ = true;
  end_phase("loading", start);
  take_program(options, settings);
  if (contents == FileContents::kAll) take_contents(file, stored.has_random_state);
}

// The same tensors in the same roles: those of the file first, since they are what a program was made for.
void Model::check_tensors(const std::vector<StoredRole>& stored) const {
  std::map<std::string, StoredRole> here;
  for (const HostTensor& entry : tensors_) {
    here[entry.name] = {entry.name, graph_type(entry.tensor), entry.is_parameter, entry.trainable, entry.grouping};
  }
  for (const StoredRole& wanted : stored) {
    const auto found = here.find(wanted.name);
    if (found == here.end()) throw aspen::FileError("its model has \"{}\", and this one has not", wanted.name);
    const std::string was = role_text(wanted), is = role_text(found->second);
    if (was != is) throw aspen::FileError("\"{}\" is {} in its model, and {} in this one", wanted.name, was, is);
    here.erase(found);
  }
  if (!here.empty()) {
    throw aspen::FileError("this model has \"{}\", and that of the file has not", here.begin()->first);
  }
}

void Model::check_key(const StoredModel& stored) const {
  const auto value_of = [](const ProgramKey& key, const std::string& name) -> std::string {
    for (const ProgramKey::Setting& setting : key.settings) {
      if (setting.name == name) return setting.value;
    }
    return "not given";
  };
  for (const ProgramKey* key : {&stored.key, &key_}) {
    for (const ProgramKey::Setting& setting : key->settings) {
      const std::string was = value_of(stored.key, setting.name), is = value_of(key_, setting.name);
      if (was == is) continue;
      throw aspen::FileError("it was compiled with {} = {}, and the options, the strategy or the optimiser say {} here",
                             setting.name, was, is);
    }
  }
  if (stored.key.graph != key_.graph) {
    throw aspen::FileError(
        "it holds the program of another model: what forward does, its constants or the shapes of its tensors differ");
  }
}

// Of a model that is not captured: what a capture would have told.
void Model::take_interface(const StoredModel& stored) {
  num_stages_ = stored.num_stages;
  examples_ = stored.examples;
  num_outputs_ = stored.num_outputs;
  for (const std::uint64_t input : stored.written_inputs) {
    if (input >= examples_.size()) throw aspen::FileError("there is no input {}", input);
    written_inputs_.push_back(input);
  }
  written_ = stored.written;
  written_buffers_ = stored.written_buffers;
  host_calls_ = stored.host_calls;
  for (const std::string& name : stored.updated) index_of_parameter_[name] = 0;
}

void Model::take_contents(const aspen::Sections& file, bool with_random_state) {
  aspen::ProgramState state = aspen::load_state(file);
  for (auto& [name, bytes] : state.variables) {
    const auto* variable = find_variable(name);
    if (variable == nullptr) throw aspen::FileError("there is no variable \"{}\"", name);
    if (bytes.size() != host_type(*variable).bytes()) {
      throw aspen::FileError("variable \"{}\" has {} bytes, not {}", name, bytes.size(), host_type(*variable).bytes());
    }
    // The numbers of an optimiser are those of the one that is given.
    if (!is_setting(name)) write_variable(*variable, std::move(bytes));
  }
  if (with_random_state) set_random_state(state.seed, state.step);
}

}  // namespace poptorch
