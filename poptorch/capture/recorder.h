// The recorder: one capture of a model. Torch sends it every op the model runs (see dispatch.cpp); it finds the op's
// handler, which adds to the graph, and hands traced tensors back. It lives until the graph is compiled: backward
// passes and hooks of the user's are recorded when the graph is differentiated. Only one capture is active at a time in
// a process; others wait for their turn.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/stage_cut.h"
#include "poptorch/capture/autograd.h"
#include "poptorch/capture/host_table.h"
#include "poptorch/capture/known.h"
#include "poptorch/capture/overlap.h"
#include "poptorch/capture/traced_impl.h"

namespace poptorch {

class Recorder {
 public:
  Recorder(aspen::Graph& graph, bool training);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // While one exists its recorder is the current one of this thread. UserError if there is another one already.
  class Active {
   public:
    explicit Active(Recorder& recorder);
    ~Active();
    Active(const Active&) = delete;
    Active& operator=(const Active&) = delete;

   private:
    std::unique_lock<std::mutex> turn_;
  };
  static Recorder* current();  // of the capture that is active on this thread, or nullptr

  // While one exists this thread captures nothing, as if it stood outside of the model.
  class Paused {
   public:
    Paused();
    ~Paused();
    Paused(const Paused&) = delete;
    Paused& operator=(const Paused&) = delete;

   private:
    Recorder* recorder_;
  };

  aspen::Builder b;
  bool training() const { return training_; }
  Capture& capture() { return *capture_; }
  Autograd& autograd() { return autograd_; }

  // -- the model around the ops ---------------------------------------------------------------------------
  // A tensor within the memory of an earlier one is a view of that variable, not a variable of its own.
  void add_variable(const std::string& name, const at::Tensor& tensor, aspen::VariableKind kind, bool trainable);
  at::Tensor add_input(const std::string& name, const at::Tensor& example);
  // Runs the model with every op recorded.
  std::vector<at::Tensor> run(const std::function<std::vector<at::Tensor>()>& forward);
  // After run: stores what the model left in its variables, and takes in the hooks on gradients.
  void finish();
  // Ops that have become part of another graph: they stay until forward is through, and nothing may use them.
  void retire(aspen::Op* op) { retired_.insert(op); }
  bool is_retired(const aspen::Op* op) const { return retired_.count(op) != 0; }
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
  bool owns(const TracedImpl& impl) const { return impl.capture() == capture_; }  // or is it of another capture
  bool wants_gradient(const TracedImpl& impl);                                    // requires_grad, as torch calls it
  std::shared_ptr<Traced> find(const at::Tensor& tensor);                         // nullptr: a tensor of the host
  std::shared_ptr<Traced> find_or_adopt(const at::Tensor& tensor);  // a host tensor becomes part of the model
  aspen::Value* value_of(const at::Tensor& tensor);                 // a host tensor becomes a constant
  at::Tensor wrap(aspen::Value* value, c10::ScalarType type);
  // Casts to the tensor's type and expands to its shape. A host tensor becomes part of the model.
  void write(const at::Tensor& tensor, aspen::Value* value);
  std::optional<at::Tensor> known(const at::Tensor& tensor);  // contents, if they are constant
  std::shared_ptr<Traced> detached(const std::shared_ptr<Traced>& traced);
  void set_data(const at::Tensor& tensor, const at::Tensor& data);  // tensor.data = data

  // -- ops -----------------------------------------------------------------------------------------------
  // Consumes the arguments, returns the results of the op.
  torch::jit::Stack dispatch(const c10::OperatorHandle& op, torch::jit::Stack arguments);
  // Records an op that torch knows nothing of: `body` adds it to the graph, where the program stands, and wraps its
  // results.
  using Tensors = std::vector<at::Tensor>;
  Tensors record(const std::string& op, const Tensors& arguments, const std::function<Tensors()>& body);
  // Takes the id for a layer that runs on the host. Whether it was free, or taken for the very same layer.
  bool claim_id(const std::string& id, const std::shared_ptr<const void>& layer);
  std::int64_t new_stream() { return next_stream_++; }
  void note_host_call(const std::string& op);
  // While the graph is differentiated: records what `body` does as part of the backward pass of `op`.
  void record_backward(const aspen::Op& op, const std::function<void()>& body);
  bool is_in_backward() const { return in_backward_; }
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
  // For a model that the compiler cuts into stages (aspen/compiler/placement/cut_stages.h): from now on ops belong to
  // parts, which are told as the stages of their placements. A part begins where a module is called and ends where the
  // next one begins. by_parameters: nobody tells of calls, so that one begins where the parameters of another module
  // are read.
  void count_parts(bool by_parameters);
  // A module is called, `name` as the user writes it. Nothing happens unless parts are counted.
  void enter_module(const std::string& name);
  // By part: the module with whose first call it begins, of several the one whose calls end first; "" of none, and of
  // what comes before all modules.
  std::vector<aspen::StageCut::Part> parts() const;
  // While a region is open no part begins: its ops become one op.
  void open_region() { ++open_regions_; }
  void close_region() { --open_regions_; }
  void locate();              // takes over where the program stands now
  std::string where() const;  // "\n  captured at model.py:42, Net.forward", "" when unknown

  // The message of the last error thrown while recording: tells our errors from others when they come back through
  // an interpreter.
  const std::string& last_error() const { return last_error_; }
  void note_error(const aspen::Error& error) { last_error_ = error.what(); }

 private:
  struct Input {
    std::shared_ptr<TracedStorage> storage;
  };
  struct VariableSlot {
    std::string name;
    at::Tensor tensor;
    std::shared_ptr<TracedStorage> storage;
    aspen::Variable* variable = nullptr;  // nullptr until the model uses it
    aspen::Op* assign = nullptr;          // of what the model left in it
  };

  void require_block(const std::string& op) const;
  void enter_module_of(const at::Tensor& parameter);
  void require_own(const TracedImpl& impl) const;
  void bring_up_to_date(const c10::OperatorHandle& op, const torch::jit::Stack& arguments);
  [[noreturn]] void rethrow_with_source(const aspen::Error& error);        // the error being handled
  [[noreturn]] void fail(const std::string& op, const std::string& text);  // with the op and the line
  aspen::Value* constant_of(const at::Tensor& tensor);
  void assign_written_variables();
  void drop_retired();

  bool training_, in_backward_ = false;
  std::shared_ptr<Capture> capture_ = std::make_shared<Capture>();
  Autograd autograd_;
  HostTable table_;
  std::vector<Input> inputs_;
  std::vector<std::unique_ptr<VariableSlot>> variables_;
  // By the address they were read from and a hash of their bytes.
  std::map<std::pair<const void*, std::size_t>, std::vector<aspen::Value*>> constants_;
  Known known_;
  std::int64_t first_new_value_ = 0;  // ids of the values that the op being recorded makes begin here
  std::vector<std::string> scopes_;
  bool after_block_ = false;  // a block has ended and no other begun
  std::int64_t device_of_block_ = 0, num_stages_ = 1;
  // Modules whose first calls begin with each part; empty: parts are not counted.
  std::vector<std::vector<std::string>> parts_;
  std::map<std::string, std::int64_t> last_calls_;  // by module: the part
  std::size_t ops_before_part_ = 0;
  bool parts_by_parameters_ = false;
  std::string module_of_parameters_;
  int open_regions_ = 0;
  std::int64_t next_stream_ = 0;
  std::set<std::string> host_calls_;
  std::map<std::string, std::shared_ptr<const void>> host_layers_;  // by their ids
  std::unordered_set<const aspen::Op*> retired_;
  std::vector<std::unique_ptr<aspen::Op>> dropped_;  // tensors of the model may still know their values
  std::string last_error_;
};

// Tells where in the user's program an op was called: "model.py:42, Net.forward". Set by the language binding.
void set_source_provider(std::function<std::string()> provider);

}  // namespace poptorch
