// Call: one dispatched ATen op on its way into the graph. A handler in poptorch/aten reads the arguments by
// their schema names, adds Aspen ops and sets the results. Handlers never see TensorImpl, storages or strides.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "aspen/compiler/ir/builder.h"
#include "poptorch/capture/alias.h"
#include "poptorch/capture/host_data.h"

namespace poptorch {

class Recorder;

class Call {
 public:
  Call(Recorder& recorder, const c10::OperatorHandle& op, torch::jit::Stack& arguments);

  aspen::Builder& b;
  std::string name() const;  // "aten::softmax.int"

  // -- arguments, by schema name ------------------------------------------------------------------------
  bool has(std::string_view argument) const;  // the op has such an argument and it is neither None nor undefined
  const c10::IValue& raw(std::string_view argument) const;
  // The value of a tensor argument; a host tensor becomes a constant. Undefined: nullptr.
  aspen::Value* value(std::string_view argument);
  std::vector<aspen::Value*> values(std::string_view argument);  // of a (optional-)tensor list; nullptr entries stay
  c10::ScalarType dtype(std::string_view argument) const;        // torch type of a tensor argument
  std::vector<c10::ScalarType> dtypes(std::string_view argument) const;
  bool is_wrapped_number(std::string_view argument) const;  // a Python number in tensor's clothing
  std::int64_t integer(std::string_view argument) const;
  double number(std::string_view argument) const;            // int or float Scalar
  bool is_integral_scalar(std::string_view argument) const;  // int or bool Scalar
  bool boolean(std::string_view argument) const;
  std::string text(std::string_view argument) const;
  std::vector<std::int64_t> integers(std::string_view argument) const;
  std::vector<double> numbers(std::string_view argument) const;
  std::optional<c10::ScalarType> dtype_option(std::string_view argument) const;  // "dtype" arguments
  // Contents of an argument known while capturing (host tensor or a constant in the graph); nullopt otherwise.
  std::optional<at::Tensor> known(std::string_view argument);

  // Element type of the result of mixing the named tensors and scalars, by torch's promotion rules.
  c10::ScalarType result_type(const std::vector<std::string_view>& arguments) const;

  // -- results, in schema order -------------------------------------------------------------------------
  void result(aspen::Value* value);  // torch type guessed from the graph type and inputs
  void result(aspen::Value* value, c10::ScalarType type);
  void result_list(const std::vector<aspen::Value*>& values, std::optional<c10::ScalarType> type = {});
  void result_undefined();
  // A result that is a view of the argument: a chain of steps (see ViewStep) applied to it.
  // Writes to either are seen through the other.
  using ViewStep = poptorch::ViewStep;
  using ViewChain = poptorch::ViewChain;
  void view(std::string_view argument, const ViewChain& chain);
  void view_list(std::string_view argument, const std::vector<ViewChain>& chains);
  // A result with the elements of the argument in another shape: a view if torch makes one, else a copy.
  void reshaped(std::string_view argument, const aspen::Shape& shape);
  // A result that is the argument itself (identity ops, in-place ops).
  void same(std::string_view argument);
  bool is_contiguous(std::string_view argument);  // in torch's memory; values of the graph always are

  // Stores into a tensor argument: batch_norm's running statistics, copy_ and the like. Casts to its type.
  void write(std::string_view argument, aspen::Value* value);

  // Marks a value as a loss and returns the marked value: what training starts from.
  aspen::Value* loss(aspen::Value* value);

  std::int64_t new_stream();  // for a random op
  bool training() const;      // capturing for trainingModel
  const torch::jit::Stack& stack() const { return arguments_; }
  const c10::FunctionSchema& schema() const { return op_.schema(); }
  torch::jit::Stack take_results() { return std::move(results_); }

 private:
  std::size_t index_of(std::string_view argument) const;

  Recorder& recorder_;
  const c10::OperatorHandle& op_;
  torch::jit::Stack& arguments_;
  torch::jit::Stack results_;
};

using Handler = std::function<void(Call&)>;

// Which ATen ops are lowered, by full name ("aten::softmax.int"). In-place twins (`relu_`) and out= forms of a
// listed op need no entry. A handler that meets a case it does not cover calls decline(): the op then becomes a
// host call.
class HandlerTable {
 public:
  void add(std::string_view name, Handler handler);
  // The same for a handler that knows complex tensors, which it meets as pairs along a last axis (see complex.h).
  void add_complex(std::string_view name, Handler handler);
  bool takes_complex(std::string_view name) const { return complex_.find(name) != complex_.end(); }
  const Handler* find(std::string_view name) const;
  void remove(std::string_view name);  // tests: makes an op a host call
  std::vector<std::string> names() const;
  // Which handlers have lowered an op since the table was made: tests ask whether all of them were exercised.
  void note_use(std::string_view name) { used_.emplace(name); }
  const std::set<std::string>& used() const { return used_; }

 private:
  std::map<std::string, Handler, std::less<>> handlers_;
  std::set<std::string, std::less<>> complex_;
  std::set<std::string> used_;
};

[[noreturn]] void decline(std::string_view why);  // throws Declined
struct Declined : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// All handlers of poptorch/aten (the list is written by CMake from its files: register_<file>(HandlerTable&)).
HandlerTable& handler_table();
void restore_handlers();  // tests: undoes every remove

}  // namespace poptorch
