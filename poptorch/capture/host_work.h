// Work of torch or of the user's in the middle of a program: the nodes host_call of the graph, which read and write
// tensors of torch. Behind ops without a lowering (host_call.h), layers on the host (host_layer.h) and operators of
// the user's own (custom_op.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aspen/base/attrs.h"
#include "aspen/base/device_fault.h"
#include "aspen/base/tensor_type.h"
#include "poptorch/capture/recorder.h"
#include "poptorch/error.h"

namespace poptorch {

// A tensor on the way between the graph and torch.
struct Wire {
  aspen::TensorType type;
  c10::ScalarType torch_type;
};
std::vector<Wire> wires_of(const std::vector<at::Tensor>& tensors);  // as the graph would hold such tensors
std::string type_list(const std::vector<Wire>& wires);               // the attribute `outputs` of a host_call

struct HostWork {
  std::string name;         // in errors: "aten::inverse"
  bool is_foreign = false;  // may be written in the language of the model
  // Called by the threads of the program, several at a time if there are replicas. Under torch's autograd if its
  // gradient is wanted: then the inputs require one.
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> run;
  std::vector<Wire> inputs, outputs;
  // What makes `run` again in another process (stored_work.h), if anything does. Empty: nothing does.
  std::function<std::optional<std::vector<std::byte>>()> stored = nullptr;
};
// The work as nodes of the graph call it, and torch's gradient of it by the inputs that are listed.
std::shared_ptr<aspen::HostFunction> forward_call(std::shared_ptr<const HostWork> work);
std::shared_ptr<aspen::HostFunction> backward_call(std::shared_ptr<const HostWork> work,
                                                   std::vector<std::int64_t> differentiable);
// Adds the work to the graph and returns its results as tensors of the model. Its gradient is what torch's autograd
// gives for the work, done once more.
std::vector<at::Tensor> emit_host_work(Recorder& recorder, const std::vector<at::Tensor>& inputs, HostWork work);
// The results of such a node as tensors of the model.
std::vector<at::Tensor> wrap_outputs(Recorder& recorder, aspen::Op* node, const std::vector<Wire>& outputs);

// Copies a result to where the graph wants it; a UserError if it has another shape.
void store(const at::Tensor& tensor, const aspen::TensorType& type, void* into);

// A function that knows the types of its operands, so that a program from a file can be held to them.
class TypedFunction : public aspen::HostFunction {
 public:
  virtual std::vector<aspen::TensorType> input_types() const = 0;
  virtual std::vector<aspen::TensorType> output_types() const = 0;
};
std::vector<aspen::TensorType> types_of(const std::vector<Wire>& wires);

// -- errors -------------------------------------------------------------------------------------------------------
// Work may be written in the language of the model. What its binding must do about that:
struct ForeignLanguage {
  // Keeps the language's record of the calling thread, and with it an error, alive as long as the result lives.
  std::function<std::shared_ptr<void>()> keep_thread;
  // The text of the error a call has left behind, "" for none; the error is gone then.
  std::function<std::string()> take_error;
};
void set_foreign_language(ForeignLanguage language);
std::string take_foreign_error();
std::shared_ptr<void> keep_foreign_thread();

// What the user's error says that repairs the hardware behind the work.
aspen::Repair repair_of(const RecoverableError& error);

// Does some work; whatever it throws is an error of ours that names it. Errors of torch lose their C++ stack. That a
// device has failed stays known: work may have hardware of its own.
template <class F>
auto naming(const std::string& name, const std::string& where, const F& work) {
  try {
    return work();
  } catch (const aspen::DeviceError&) {
    throw;
  } catch (const RecoverableError& error) {
    throw aspen::DeviceFault(repair_of(error), "[{}] {}{}", name, error.message(), where);
  } catch (const UnrecoverableError& error) {
    throw aspen::DeviceFault(aspen::Repair::kNothing, "[{}] {}{}", name, error.message(), where);
  } catch (const std::bad_alloc&) {
    throw aspen::DeviceFault(aspen::Repair::kDeviceReset, "[{}] there is not enough memory.{}", name, where);
  } catch (const aspen::Error& error) {
    const std::string text = error.what();
    throw aspen::UserError("{}{}{}", text.starts_with("[") ? "" : "[" + name + "] ", text, where);
  } catch (const c10::Error& error) {
    throw aspen::UserError("[{}] {}{}", name, error.what_without_backtrace(), where);
  } catch (const std::exception& error) {
    const std::string text = take_foreign_error();
    throw aspen::UserError("[{}] {}{}", name, text.empty() ? error.what() : text, where);
  }
}

}  // namespace poptorch
