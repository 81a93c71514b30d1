// Model: a PyTorch model from capture to training, shared by the Python and the C++ API. The caller says which tensors
// belong to it, captures its forward once, compiles, and runs; this class moves bytes between torch and the executor.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "aspen/compiler/compile.h"
#include "aspen/program_file/sections.h"
#include "aspen/runtime/executor.h"
#include "poptorch/model/output_pool.h"
#include "poptorch/model/program_key.h"

namespace poptorch {

class Recorder;
struct StoredModel;
struct StoredRole;

// What inputs hold that never come from the host.
enum class SyntheticData : std::uint8_t { kOff, kZeros, kNormal, kUniform };

struct CompileSettings {
  aspen::CompileOptions options;  // `training` and `num_stages` are those of the model
  SyntheticData synthetic_data = SyntheticData::kOff;
  std::string name;  // of the model, in messages and file names
  std::uint64_t seed = 0;
  std::string backend;                       // empty: the best one built
  std::vector<std::vector<float>> settings;  // per group of the optimizer, in the order of aspen::Setting
  std::string cache;                         // the directory of an ExecutableCache; empty: none
};

// An input as a model was captured with it: one micro-batch.
struct ExampleInput {
  std::string name;
  c10::ScalarType type = c10::ScalarType::Float;
  std::vector<std::int64_t> shape;
};

// What a model takes from a file beside its program.
enum class FileContents : std::uint8_t {
  kProgram,  // nothing: its variables are as those of a model that has just been compiled
  kAll,      // weights, state of the optimiser, and where the random ops are, if the file says so
};

struct OutputRequest {
  aspen::OutputMode mode = aspen::OutputMode::kAll;
  std::int64_t period = 1;
};

// How many micro-batches of an output reach the host, of each replica. UserError for a period that does not divide.
std::int64_t returned_batches(const OutputRequest& request, std::int64_t device_iterations,
                              std::int64_t gradient_accumulation);
// The shape of `count` blocks along the first axis; a number becomes a list of numbers.
aspen::Shape stacked(aspen::Shape shape, std::int64_t count);

// What forward returned in one place: a tensor of the graph, number `index` among the results of a run, or a host
// tensor as it is.
struct ModelOutput {
  bool in_graph = false;
  std::size_t index = 0;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<std::int64_t> shape;
  at::Tensor host;
};

// A buffer that the model writes differs between replicas; the host shows the first one's.
enum class PrivateBuffers : std::uint8_t {
  kOverwritten,  // all replicas take the host's value
  kKeptIfSame,   // they keep theirs unless the host's value has been changed since it was copied from the first one
};

class Model {
 public:
  explicit Model(bool training);
  ~Model();

  // A parameter or buffer. The same tensor under a second name is tied to the first.
  void add_tensor(const std::string& name, const at::Tensor& tensor, bool is_parameter);
  // A parameter that differs between groups of replicas: `tensor` holds the value of each group (of each replica, if
  // the grouping returns all), one after the other along its first axis; forward sees `seen`, which has one of them
  // while the model is captured and compiled.
  void add_grouped_parameter(const std::string& name, const at::Tensor& tensor, const at::Tensor& seen,
                             const aspen::ReplicaGrouping& grouping, std::size_t replicas);

  // Runs forward once on symbolic tensors shaped like `inputs`. Once per model. Threads take turns.
  using Forward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& traced)>;
  std::vector<ModelOutput> capture(const Forward& forward, const std::vector<at::Tensor>& inputs,
                                   const std::vector<std::string>& names);
  std::size_t num_outputs() const { return num_outputs_; }
  // Names of the anchors that the model was compiled with, in their order.
  const std::vector<std::string>& anchors() const { return anchors_; }
  // Parameters that required a gradient when they were added, by name, in that order.
  std::vector<std::pair<std::string, at::Tensor>> trainable_parameters() const;
  const std::vector<std::string>& written_buffers() const { return written_buffers_; }
  const std::vector<std::string>& host_calls() const { return host_calls_; }

  // Also runs the backward passes and hooks of the user's, on symbolic gradients.
  void compile(const CompileSettings& settings);
  // The last error of ours thrown while forward or backward passes were recorded; "": none.
  std::string last_capture_error() const;
  bool is_compiled() const { return program_ != nullptr; }

  // -- programs on disk (model_file.cpp) ------------------------------------------------------------------------------
  // Everything that another process needs to go on with this model. A UserError names what cannot be stored.
  void store(aspen::Sections& file, bool with_random_state) const;
  // In place of compile(): takes the program of a file that was made of this very model, with these settings; the
  // tensors must have been added. A model that is captured is compared with it, one that is not is taken to be the
  // same. An aspen::FileError says what does not fit.
  void load(const aspen::Sections& file, const CompileSettings& settings, FileContents contents);
  // What the model in a file was captured with, and whether it trains.
  static std::vector<ExampleInput> example_inputs(const aspen::Sections& file);
  static bool is_training(const aspen::Sections& file);

  // The executor and its memory. What the device held (weights, optimiser state, random state) survives a detach.
  // device: the id that the caller has a lease of, if any.
  void attach(std::optional<std::int64_t> device = {});
  void detach();
  bool is_attached() const { return executor_ != nullptr; }

  void upload_weights(PrivateBuffers private_buffers = PrivateBuffers::kOverwritten);
  void upload_tensor(const std::string& name);
  void download_weights();
  // Parameters and buffers that forward itself writes, if a run has done so since they were copied last.
  void download_written();

  // The numbers of an optimiser group, or of one parameter; may be changed between runs, attached or not. Nothing
  // happens for parameters that are not updated.
  void set_settings(std::size_t group, const std::vector<float>& values);
  void set_parameter_settings(const std::string& parameter, const std::vector<float>& values);
  // State of the optimiser, by variable name.
  std::vector<std::string> state_names() const;
  at::Tensor read_state(const std::string& name) const;
  void write_state(const std::string& name, const at::Tensor& tensor);

  // Each input holds device_iterations * gradient_accumulation * input groups micro-batches along its first axis, an
  // output as many blocks as its mode returns times the replicas. One result per output of forward, then one per
  // anchor, fresh, and as many modes are to be given. Inputs the model writes are updated in place. With synthetic data
  // only the shapes of inputs matter, and results are zeros.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs, std::int64_t device_iterations,
                              std::int64_t gradient_accumulation, const std::vector<OutputRequest>& outputs,
                              const std::function<bool()>& should_stop);

  std::pair<std::uint64_t, std::uint64_t> random_state() const;
  void set_random_state(std::uint64_t seed, std::uint64_t step);

  const std::vector<std::string>& tensor_names() const { return program_->tensor_names; }  // of a compiled model
  std::string graph_text() const;

  // Of the last run, and of the memory as it is now; measured only if ASPEN_MEASURE_MEMORY=1 was set at attach().
  std::vector<aspen::DeviceTime> times() const;
  // Of the last run, also of one before a detach; outputs are those of forward.
  aspen::TransferTimes transfers() const;
  std::size_t num_replicas() const { return is_compiled() ? program_->replicas : 1; }
  std::vector<aspen::DeviceMemory> memory() const;

 private:
  struct HostTensor {
    std::string name;
    at::Tensor tensor;
    bool is_parameter = false;
    bool trainable = false;  // when the model was captured
    at::Tensor seen;         // by forward: the tensor itself unless it is grouped
    aspen::ReplicaGrouping grouping;
  };
  using Bytes = std::vector<std::byte>;

  aspen::CompileOptions compile_options(const CompileSettings& settings, std::vector<std::string>& listed);
  void make_program(const aspen::CompileOptions& options, const CompileSettings& settings);
  void take_program(const aspen::CompileOptions& options, const CompileSettings& settings);
  void check_tensors(const std::vector<StoredRole>& stored) const;
  void check_key(const StoredModel& stored) const;
  void take_interface(const StoredModel& stored);
  void take_contents(const aspen::Sections& file, bool with_random_state);
  bool is_used(const std::string& variable) const;
  static bool is_setting(const std::string& variable);  // holds numbers of the optimiser
  void keep_buffers_apart(std::size_t replicas);
  void find_anchors(const std::vector<aspen::Anchor>& anchors);
  void fill_inputs(SyntheticData kind, std::uint64_t seed);
  std::vector<std::string> split_groups(aspen::OptimizerSpec& optimizer);
  void warn_of_narrow_tensors() const;
  void warn_of_unreached(const std::vector<std::string>& listed) const;
  void warn_of_frozen();
  at::Tensor host_input(std::size_t index, const at::Tensor& tensor, std::int64_t micro_batches);

  void upload(const HostTensor& entry, const aspen::ProgramVariable& variable);
  static std::string described(const HostTensor& entry);
  Bytes host_bytes(const HostTensor& entry) const;
  bool is_private(const HostTensor& entry, const aspen::ProgramVariable& variable) const;
  Bytes once_per_replica(const Bytes& bytes) const;
  Bytes first_value(const HostTensor& entry, const aspen::ProgramVariable& variable) const;
  void download(const HostTensor& entry) const;
  void write_settings(std::size_t index, const std::vector<float>& values);

  void require_compiled(const char* who) const;
  void require_attached(const char* who) const;
  const aspen::ProgramVariable* find_variable(const std::string& name) const;
  aspen::TensorType host_type(const aspen::ProgramVariable& variable) const;
  Bytes read_variable(const aspen::ProgramVariable& variable) const;
  void write_variable(const aspen::ProgramVariable& variable, Bytes bytes);
  aspen::RunRequest request_for(const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>& results,
                                const std::vector<OutputRequest>& outputs, std::int64_t device_iterations,
                                std::int64_t gradient_accumulation);
  void write_inputs(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& results) const;
  at::Tensor one_per_input_group(const at::Tensor& result, const aspen::Shape& micro_batch) const;

  bool training_;
  std::vector<HostTensor> tensors_;
  std::set<std::string> tensor_names_;
  aspen::Graph graph_;
  std::unique_ptr<Recorder> recorder_;  // from capture until the graph is compiled
  bool captured_ = false;
  std::vector<ExampleInput> examples_;
  ProgramKey key_;               // of the program
  bool is_from_file_ = false;    // the program, so that there is no graph of it
  std::int64_t num_stages_ = 1;  // forward stages, as blocks began
  std::size_t num_outputs_ = 0;  // of the user; outputs for written inputs follow
  std::vector<std::size_t> written_inputs_;
  std::vector<std::string> written_, written_buffers_, host_calls_;  // written_: parameters too
  std::vector<std::string> anchors_;
  std::vector<std::size_t> anchor_outputs_;  // of the program, by anchor
  std::unique_ptr<aspen::Backend> backend_;
  std::shared_ptr<const aspen::Program> program_;
  std::unordered_map<std::string, const aspen::ProgramVariable*> variables_;  // of the program
  // Numbers of the optimiser: each updated parameter has a variable of its own for them, settings___<index>.
  std::vector<std::vector<std::size_t>> indices_of_group_;
  std::map<std::string, std::size_t> index_of_parameter_;
  std::unique_ptr<aspen::Executor> executor_;
  // What variables hold while there is no executor, as far as it differs from their initial contents.
  std::map<std::string, Bytes> parked_;
  std::uint64_t seed_ = 0, step_ = 0;
  aspen::TransferTimes parked_transfers_;
  OutputPool output_memory_;
  bool has_written_ = false;  // a run wrote to `written_` since they were copied to or from the host
  std::set<std::string> warned_;
};

}  // namespace poptorch
