// How an op gets into the graph: the order of ways that are tried, best first.
#include <ATen/TensorUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_strided.h>

#include <utility>

#include "aspen/ops/build.h"
#include "aspen/ops/index/index.h"
#include "aspen/ops/shape/shape.h"
#include "poptorch/capture/call.h"
#include "poptorch/capture/complex_ops.h"
#include "poptorch/capture/dispatch.h"
#include "poptorch/capture/dispatch_scope.h"
#include "poptorch/capture/host_call.h"
#include "poptorch/capture/recorder.h"
#include "poptorch/capture/special_ops.h"
#include "poptorch/capture/tensors.h"
#include "poptorch/capture/traced_impl.h"

namespace poptorch {
namespace {

using c10::IValue;
using c10::OperatorHandle;
using torch::jit::Stack;
using Lowered = std::optional<Stack>;

// Another value for a variable until the end of the scope.
template <class T>
class NestedValue {
 public:
  NestedValue(T& variable, T value) : variable_(variable), saved_(std::exchange(variable, value)) {}
  ~NestedValue() { variable_ = saved_; }
  NestedValue(const NestedValue&) = delete;
  NestedValue& operator=(const NestedValue&) = delete;

 private:
  T& variable_;
  T saved_;
};

bool writes(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

Lowered by_handler(Recorder& recorder, const OperatorHandle& op, Stack& arguments) {
  const Handler* handler = handler_table().find(full_name(op));
  if (handler == nullptr) return std::nullopt;
  try {
    Call call(recorder, op, arguments);
    (*handler)(call);
    Stack results = call.take_results();
    if (results.size() != op.schema().returns().size()) {
      throw aspen::InternalError("the handler of {} set {} of {} results", full_name(op), results.size(),
                                 op.schema().returns().size());
    }
    handler_table().note_use(full_name(op));
    return results;
  } catch (const Declined&) {
    return std::nullopt;
  }
}

// Ops on the device without tensors of the model, such as zeros(device="ipu"): computed now, frozen as constants.
Stack as_constants(Recorder& recorder, const OperatorHandle& op, Stack arguments) {
  for (IValue& argument : arguments) {
    if (argument.isDevice()) argument = c10::Device(c10::DeviceType::CPU);
  }
  op.callBoxed(&arguments);
  for (IValue& result : arguments) {
    result = map_tensors(result, [&](const at::Tensor& tensor) {
      return tensor.defined() ? recorder.wrap(recorder.value_of(tensor), tensor.scalar_type()) : tensor;
    });
  }
  return arguments;
}

// An output tensor of another size, as torch.empty(0) given for `out`, takes the size of the result.
void fit(const at::Tensor& tensor, const at::Tensor& result) {
  if (tensor.sizes() == result.sizes()) return;
  if (TracedImpl* impl = traced_impl(tensor)) {
    Recorder& recorder = *Recorder::current();
    aspen::Value* room = aspen::build::full(recorder.b, graph_dtype(tensor.scalar_type()), shape_of(result), 0);
    impl->rebind(Traced::fresh(impl->capture(), room, tensor.scalar_type()));
  } else {
    tensor.resize_(result.sizes());
  }
}

// relu_(x) as x = relu(x), add(a, b, out=y) as y = add(a, b).
Lowered by_twin(Recorder& recorder, const OperatorHandle& op, const Stack& arguments) {
  const auto twin = functional_twin(op);
  if (!twin) return std::nullopt;
  const auto& formal = op.schema().arguments();
  Stack results, written;
  std::vector<bool> is_out;
  for (std::size_t i = 0; i < formal.size(); ++i) {
    const bool out = writes(formal[i]) && formal[i].kwarg_only();
    if (writes(formal[i])) {
      written.push_back(arguments[i]);
      is_out.push_back(out);
    }
    if (!out) results.push_back(arguments[i]);
    // sum(x, out=y) adds up in the type of y.
    if (!out && formal[i].name() == "dtype" && arguments[i].isNone() && formal.back().name() == "out") {
      results.back() = arguments.back().toTensor().scalar_type();
    }
  }
  {
    CaptureScope capture;
    twin->callBoxed(&results);
  }
  if (results.size() != written.size()) return std::nullopt;
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (!written[i].isTensor() || !results[i].isTensor()) return std::nullopt;
    const at::Tensor& target = written[i].toTensor();
    const at::Tensor& result = results[i].toTensor();
    if (is_out[i]) fit(target, result);
    recorder.write(target, recorder.value_of(result));
  }
  if (op.schema().returns().empty()) return Stack{};
  return written;
}

// unsqueeze_(x) and its like change what a tensor shows, not its elements.
Stack by_rebinding(Recorder&, const OperatorHandle& op, Stack arguments) {
  const at::Tensor self = arguments[0].toTensor();
  TracedImpl* impl = traced_impl(self);
  if (impl == nullptr) {  // a tensor of the host: its sizes and strides say it all
    if (op.operator_name().name != "aten::detach_") op.callBoxed(&arguments);
    return {self};
  }
  const auto twin = functional_twin(op);
  if (!twin) throw aspen::InternalError("{} has no form that returns a view", full_name(op));
  {
    CaptureScope capture;
    twin->callBoxed(&arguments);
  }
  impl->rebind(traced_impl(arguments[0].toTensor())->traced());
  return {self};
}

// Composite ops can be taken apart into the ops torch writes them with. Any device torch has no kernels of its own
// for leads to that definition.
Lowered by_parts(Recorder& recorder, const OperatorHandle& op, Stack arguments) {
  // One kernel for all devices, in another library, may read the memory of its arguments and have a gradient of its
  // own.
  if (!op.operator_name().name.starts_with("aten::")) return std::nullopt;
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) return std::nullopt;
  // Parameters and constants are tensors of the CPU; composite ops insist on one device for all.
  bool on_device = false;
  for_each_tensor(arguments, [&](const at::Tensor& tensor) { on_device = on_device || recorder.is_traced(tensor); });
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& formal = op.schema().arguments()[i];
    // The sizes of packed batches are read on the host.
    if (!on_device || writes(formal) || formal.name() == "batch_sizes") continue;
    arguments[i] = map_tensors(arguments[i], [&](const at::Tensor& tensor) {
      if (!tensor.defined() || traced_impl(tensor) != nullptr) return tensor;
      if (const auto traced = recorder.find(tensor)) return make_traced(traced);
      if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return tensor;
      return recorder.wrap(recorder.value_of(tensor), tensor.scalar_type());
    });
  }
  CaptureScope capture;
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::PrivateUse3), &arguments);
  return arguments;
}

// Complex numbers are pairs of real ones in the graph, which most handlers do not know: what has to do with them is
// computed from its parts, taken apart, or runs on the host.
Lowered by_complex_numbers(Recorder& recorder, const OperatorHandle& op, const Stack& arguments) {
  if (!concerns_complex(op, arguments) || handler_table().takes_complex(full_name(op))) return std::nullopt;
  bool is_written = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool written = writes(op.schema().arguments()[i]);
    for_each_tensor(arguments[i], [&](const at::Tensor& tensor) {
      is_written = is_written || (written && tensor.defined() && tensor.is_complex());
    });
  }
  if (op.hasTag(at::Tag::inplace_view)) return by_rebinding(recorder, op, arguments);
  if (is_written) {
    throw aspen::UserError(
        "[{}] changes a complex tensor in place, which models cannot. Use the form that returns a new one.",
        full_name(op));
  }
  if (auto results = lower_complex(recorder, op, arguments)) return results;
  if (auto results = by_parts(recorder, op, arguments)) return results;
  return emit_host_call(recorder, op, arguments);
}

// Of each result of an op that only rearranges one tensor, in memory; empty where there are no fixed ones.
std::vector<std::vector<std::int64_t>> strides_of_view(const OperatorHandle& op, Stack arguments, std::size_t self,
                                                       const Traced& traced) {
  const auto own = traced.strides();
  arguments[self] = at::empty_strided(traced.shape(), own ? *own : at::detail::defaultStrides(traced.shape()),
                                      at::TensorOptions(c10::kMeta));
  op.callBoxed(&arguments);
  std::vector<std::vector<std::int64_t>> strides;
  for_each_tensor(arguments, [&](const at::Tensor& shown) {
    strides.push_back(own ? shown.strides().vec() : std::vector<std::int64_t>());
  });
  return strides;
}

// Any op that only rearranges one tensor: applied to the positions 0, 1, 2, ... it tells where each element comes
// from, and the result is a view that takes them from there.
Lowered by_positions(Recorder& recorder, const OperatorHandle& op, const Stack& arguments) {
  const auto& returns = op.schema().returns();
  if (returns.size() != 1 || returns[0].alias_info() == nullptr || returns[0].alias_info()->isWrite()) return {};
  std::size_t self = arguments.size();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& formal = op.schema().arguments()[i];
    if (formal.name() == "dtype" || arguments[i].isTensorList()) return {};
    if (!arguments[i].isTensor()) continue;
    if (self != arguments.size() || formal.alias_info() == nullptr) return {};
    self = i;
  }
  if (self == arguments.size()) return {};
  const auto traced = recorder.find_or_adopt(arguments[self].toTensor());
  const std::int64_t size = aspen::numel(traced->shape());
  Stack results = arguments;
  results[self] = at::arange(size).view(traced->shape());
  try {
    op.callBoxed(&results);
  } catch (const c10::Error&) {  // not an op on integers: view_as_complex, say
    return {};
  }
  bool plain = true;
  for_each_tensor(results, [&](const at::Tensor& places) {
    plain = plain && places.scalar_type() == at::kLong && places.numel() > 0 &&
            places.min().item<std::int64_t>() >= 0 && places.max().item<std::int64_t>() < size;
  });
  if (!plain) return {};
  const auto strides = strides_of_view(op, arguments, self, *traced);
  std::size_t next = 0;
  results[0] = map_tensors(results[0], [&](const at::Tensor& places) {
    aspen::Value* index =
        aspen::build::constant(recorder.b, {aspen::DType::kI32, shape_of(places)}, to_graph_bytes(places));
    ViewStep take{"take", aspen::Attrs::of(aspen::TakeAttrs{.axis = 0}), index};
    take.strides = strides[next++];
    return make_traced(
        traced->view(recorder.b, {{"reshape", aspen::Attrs::of(aspen::ReshapeAttrs{{size}})}, std::move(take)}));
  });
  return results;
}

}  // namespace

// Whatever the arguments show is in the graph before the op: what the op adds is its own.
void Recorder::bring_up_to_date(const OperatorHandle& op, const Stack& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool is_written = writes(op.schema().arguments()[i]);
    for_each_tensor(arguments[i], [&](const at::Tensor& tensor) {
      const auto traced = traced_impl(tensor) == nullptr ? nullptr : find(tensor);
      if (traced == nullptr) return;
      if (is_written) traced->forget_view();
      traced->read(b);
    });
  }
}

Stack Recorder::dispatch(const OperatorHandle& op, Stack arguments) {
  locate();
  if (training_) bring_up_to_date(op, arguments);
  NestedValue first_new(first_new_value_, b.graph().num_values());
  bool traced = false, on_device = false;
  for_each_tensor(arguments, [&](const at::Tensor& tensor) { traced = traced || is_traced(tensor); });
  for (const IValue& argument : arguments) {
    on_device = on_device || (argument.isDevice() && argument.toDevice().type() == c10::DeviceType::IPU);
  }
  const bool random = op.hasTag(at::Tag::nondeterministic_seeded);
  if (!traced && !on_device && !random) {
    // Taken apart where torch does so: a part may be random.
    if (auto results = by_parts(*this, op, arguments)) return *results;
    op.callBoxed(&arguments);
    return arguments;
  }
  if (parts_by_parameters_) {
    for_each_tensor(arguments, [&](const at::Tensor& tensor) { enter_module_of(tensor); });
  }
  try {
    require_block(full_name(op));
    if (auto results = lower_special(*this, op, arguments)) return *results;
    if (auto results = by_complex_numbers(*this, op, arguments)) return *results;
    if (auto results = by_handler(*this, op, arguments)) return *results;
    if (!traced && !random) return as_constants(*this, op, std::move(arguments));
    if (op.hasTag(at::Tag::inplace_view)) return by_rebinding(*this, op, std::move(arguments));
    if (auto results = by_twin(*this, op, arguments)) return *results;
    if (auto results = by_parts(*this, op, arguments)) return *results;
    if (auto results = by_positions(*this, op, arguments)) return *results;
    if (auto results = lower_if_known(*this, op, arguments)) return *results;
    return emit_host_call(*this, op, arguments);
  } catch (const aspen::Error& error) {
    rethrow_with_source(error);
  } catch (const c10::Error& error) {
    fail(full_name(op), error.what_without_backtrace());
  } catch (const std::logic_error& error) {
    fail(full_name(op), error.what());
  } catch (const std::bad_alloc&) {
    fail(full_name(op), "there is not enough memory.");
  }
}

void Recorder::fail(const std::string& op, const std::string& text) {
  last_error_ = "[" + op + "] " + text + where();
  throw aspen::UserError("{}", last_error_);
}

Recorder::Tensors Recorder::record(const std::string& op, const Tensors& arguments,
                                   const std::function<Tensors()>& body) {
  HostScope host;
  locate();
  for (const at::Tensor& tensor : arguments) {
    if (training_ && traced_impl(tensor) != nullptr) find(tensor)->read(b);
  }
  NestedValue first_new(first_new_value_, b.graph().num_values());
  try {
    require_block(op);
    return body();
  } catch (const aspen::Error& error) {
    rethrow_with_source(error);
  }
}

void Recorder::rethrow_with_source(const aspen::Error& error) {
  note_error(error);
  if (where().empty() || last_error_.find("captured at ") != std::string::npos) throw;
  last_error_ += where();
  aspen::rethrow_with_context("captured at " + b.location.source);
}

}  // namespace poptorch
