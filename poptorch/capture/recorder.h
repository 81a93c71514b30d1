// The recorder: one capture of a model. Torch sends it every op the model runs (see dispatch.cpp); it finds the op's
// handler, which adds to the graph, and hands traced tensors back. Only one capture runs at a time in a process.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "aspen/compiler/ir/builder.h"
#include "poptorch/capture/host_table.h"
#include "poptorch/capture/known.h"
#include "poptorch/capture/overlap.h"

namespace poptorch {

class Recorder {
 public:
  Recorder(aspen::Graph& graph, bool training);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  static Recorder* current();  // of the capture that is running, or nullptr

  aspen::Builder b;
  bool training() const { return training_; }

  // -- the model around the ops ---------------------------------------------------------------------------
  // A tensor within the memory of an earlier one is a view of that variable, not a variable of its own.
  void add_variable(const std::string& name, const at::Tensor& tensor, aspen::VariableKind kind, bool trainable);
  at::Tensor add_input(const std::string& name, const at::Tensor& example);
  // Runs the model with every op recorded.
  std::vector<at::Tensor> run(const std::function<std::vector<at::Tensor>()>& forward);
  // After run: stores what the model left in its variables.
  void assign_written_variables();
  // After run: what became of the inputs written in place.
  struct WrittenInput {
    std::size_t index;
    aspen::Value* value;
  };
  std::vector<WrittenInput> written_inputs();
  std::vector<std::string> written_variables() const;
  const std::set<std::string>& host_calls() const { return host_calls_; }

  // -- tensors ---------------------------------------------------------------------------------------------
  bool is_traced(const at::Tensor& tensor) const;
  std::shared_ptr<Traced> find(const at::Tensor& tensor);           // nullptr: a tensor of the host
  std::shared_ptr<Traced> find_or_adopt(const at::Tensor& tensor);  // a host tensor becomes part of the model
  aspen::Value* value_of(const at::Tensor& tensor);                 // a host tensor becomes a constant
  at::Tensor wrap(aspen::Value* value, c10::ScalarType type);
  // Casts to the tensor's type and expands to its shape. A host tensor becomes part of the model.
  void write(const at::Tensor& tensor, aspen::Value* value);
  std::optional<at::Tensor> known(const at::Tensor& tensor);  // contents, if they are constant
  std::shared_ptr<Traced> detached(const std::shared_ptr<Traced>& traced);

  // -- ops -----------------------------------------------------------------------------------------------
  // Consumes the arguments, returns the results of the op.
  torch::jit::Stack dispatch(const c10::OperatorHandle& op, torch::jit::Stack arguments);
  std::int64_t new_stream() { return next_stream_++; }
  void note_host_call(const std::string& op);
  std::vector<OverlapMark> overlap_marks;

  // -- where we are -----------------------------------------------------------------------------------------
  void push_scope(std::string name);
  void pop_scope();
  // Ops belong to the block that began last. After the end of a block there is none until another begins: an op there
  // is an error.
  void begin_block(aspen::Placement placement);
  void end_block();
  // Forward stages of a pipeline: 1 + how often the device has changed from block to block, beginning on device 0.
  std::int64_t num_stages() const { return num_stages_; }
  void locate();              // takes over where the program stands now
  std::string where() const;  // "\n  captured at model.py:42, Net.forward", "" when unknown

  // The message of the last error thrown while recording: tells our errors from others when they come back through
  // an interpreter.
  const std::string& last_error() const { return last_error_; }

 private:
  struct Input {
    std::shared_ptr<TracedStorage> storage;
  };
  struct VariableSlot {
    std::string name;
    std::shared_ptr<TracedStorage> storage;
    aspen::Variable* variable = nullptr;  // nullptr until the model uses it
  };

  void require_block(const c10::OperatorHandle& op) const;
  aspen::Value* constant_of(const at::Tensor& tensor);

  bool training_;
  HostTable table_;
  std::vector<Input> inputs_;
  std::vector<std::unique_ptr<VariableSlot>> variables_;
  std::map<const void*, std::vector<aspen::Value*>> constants_;  // by the address they were read from
  Known known_;
  std::vector<std::string> scopes_;
  bool after_block_ = false;  // a block has ended and no other begun
  std::int64_t device_of_block_ = 0, num_stages_ = 1;
  std::int64_t next_stream_ = 0;
  std::set<std::string> host_calls_;
  std::string last_error_;
};

// Tells where in the user's program an op was called: "model.py:42, Net.forward". Set by the language binding.
void set_source_provider(std::function<std::string()> provider);

}  // namespace poptorch
