#include "poptorch/capture/special_ops.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/arange.h>

#include <map>

#include "poptorch/capture/boxed_op.h"
#include "poptorch/capture/dispatch.h"
#include "poptorch/capture/dispatch_scope.h"
#include "poptorch/capture/host_call.h"
#include "poptorch/capture/host_data.h"
#include "poptorch/capture/tensors.h"
#include "poptorch/capture/traced_impl.h"

namespace poptorch {
namespace {

using c10::IValue;
using c10::OperatorHandle;
using torch::jit::Stack;
using Lowered = std::optional<Stack>;

[[noreturn]] void fail_no_value(const Recorder& recorder, const std::string& what) {
  throw aspen::UserError(
      "[{}] the value of a tensor was asked for in the middle of the model, but while a model is captured it has no "
      "values yet. item(), bool(), int(), float(), .cpu() and Python conditions need one. Use tensor operations "
      "instead (torch.where for a choice, poptorch.dynamic_slice for a slice), or return the tensor from forward.{}",
      what, recorder.where());
}

bool is_mask(const at::Tensor& index) {
  return index.defined() && (index.scalar_type() == at::kBool || index.scalar_type() == at::kByte);
}

Lowered lower_item(Recorder& recorder, const OperatorHandle&, Stack& arguments) {
  const auto known = recorder.known(arguments[0].toTensor());
  if (!known) fail_no_value(recorder, "item");
  return Stack{known->item()};
}

// C++ attention asks whether query, key and value are one tensor.
Lowered lower_equal(Recorder& recorder, const OperatorHandle&, Stack& arguments) {
  const at::Tensor &a = arguments[0].toTensor(), &b = arguments[1].toTensor();
  if (recorder.value_of(a) == recorder.value_of(b)) return Stack{true};
  if (a.sizes() != b.sizes()) return Stack{false};
  const auto known_a = recorder.known(a), known_b = recorder.known(b);
  if (!known_a || !known_b) fail_no_value(recorder, "equal");
  return Stack{known_a->equal(*known_b)};
}

// nn.TransformerEncoder asks before it makes a tensor of sequences of varying length, which models do not have.
Lowered lower_is_left_aligned(Recorder&, const OperatorHandle&, Stack&) { return Stack{false}; }

std::optional<c10::Device> device_argument(const OperatorHandle& op, const Stack& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (op.schema().arguments()[i].name() == "device" && arguments[i].isDevice()) return arguments[i].toDevice();
  }
  return std::nullopt;
}

Lowered lower_to(Recorder& recorder, const OperatorHandle& op, Stack& arguments) {
  const auto device = device_argument(op, arguments);
  const at::Tensor self = arguments[0].toTensor();
  if (!device) return std::nullopt;
  const bool on_ipu = traced_impl(self) != nullptr;
  if (device->is_cpu() && on_ipu) {
    const auto known = recorder.known(self);
    if (!known) fail_no_value(recorder, "to");
    Stack results = arguments;
    results[0] = *known;
    op.callBoxed(&results);
    return results;
  }
  if (device->type() != c10::DeviceType::IPU && !device->is_cpu()) {
    throw aspen::UserError("[to] the device {} cannot be used inside the model; its tensors live on \"ipu\".{}",
                           device->str(), recorder.where());
  }
  // From here on only the type may change: the handler sees a tensor of the model.
  if (!on_ipu && device->type() == c10::DeviceType::IPU) {
    if (const auto traced = recorder.find(self)) {
      arguments[0] = make_traced(traced);
    } else {
      arguments[0] = recorder.wrap(recorder.value_of(self), self.scalar_type());
    }
  }
  return std::nullopt;
}

Lowered lower_resize(Recorder& recorder, const OperatorHandle& op, Stack& arguments) {
  const at::Tensor self = arguments[0].toTensor();
  const auto wanted = arguments[1].isTensor() ? arguments[1].toTensor().sizes().vec() : arguments[1].toIntVector();
  if (self.sizes().vec() == wanted) return Stack{self};
  throw aspen::UserError(
      "[{}] the memory of a tensor of the model cannot be resized from {} to {}; use reshape() or "
      "make a new tensor.{}",
      full_name(op), aspen::to_string(shape_of(self)), aspen::to_string(wanted), recorder.where());
}

Lowered lower_set(Recorder& recorder, const OperatorHandle& op, Stack&) {
  throw aspen::UserError("[{}] the memory behind a tensor of the model cannot be exchanged; use copy_().{}",
                         full_name(op), recorder.where());
}

// tensor_split.tensor_indices_or_sections(Tensor self, Tensor tensor_indices_or_sections, int dim=0): torch reads the
// places on the host.
Lowered lower_tensor_split(Recorder& recorder, const OperatorHandle& op, Stack& arguments) {
  if (!arguments[1].isTensor()) return std::nullopt;
  const auto places = recorder.known(arguments[1].toTensor());
  if (!places) {
    throw aspen::UserError(
        "[tensor_split] the places decide the shapes of the parts, and a model is compiled for fixed shapes before "
        "there are values. Give a number or a list of numbers, or a tensor that is no input of the model.{}",
        recorder.where());
  }
  Stack results = {arguments[0], places->to(at::kLong), arguments[2]};
  CaptureScope capture;
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::PrivateUse3), &results);
  return results;
}

// _scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.,
// bool need_attn_weights=False, bool is_causal=False) -> (Tensor, Tensor): by torch's formula, whose parts have
// handlers, instead of a kernel of some device.
Lowered lower_attention(Recorder&, const OperatorHandle&, Stack& arguments) {
  static const auto formula =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::_scaled_dot_product_attention_math", "");
  // Half and bfloat16 are rounded once, at the end.
  const at::ScalarType type = arguments[0].toTensor().scalar_type();
  const bool is_narrow = is_narrow_float(type);
  const auto converted = [](const IValue& value, at::ScalarType from, at::ScalarType to) {
    return map_tensors(value,
                       [&](const at::Tensor& t) { return t.defined() && t.scalar_type() == from ? t.to(to) : t; });
  };
  Stack results = arguments;
  CaptureScope capture;
  if (is_narrow) {
    for (IValue& argument : results) argument = converted(argument, type, at::kFloat);
  }
  formula.callBoxed(&results);
  if (is_narrow) {
    for (IValue& result : results) result = converted(result, at::kFloat, type);
  }
  return results;
}

// x[mask] with a mask known now is x[positions]: a mask stands for as many lists of positions as it has axes.
Lowered index_by_known_masks(Recorder& recorder, const OperatorHandle& op, const Stack& arguments) {
  if (full_name(op) != "aten::index.Tensor") return std::nullopt;
  c10::List<c10::optional<at::Tensor>> indices;
  for (c10::optional<at::Tensor> index : arguments[1].toOptionalTensorList()) {
    if (!index || !is_mask(*index)) {
      indices.push_back(index);
      continue;
    }
    const auto mask = recorder.known(*index);
    if (!mask) return std::nullopt;
    for (const at::Tensor& column : mask->nonzero().unbind(1)) indices.push_back(column);
  }
  Stack results = {arguments[0], indices};
  CaptureScope capture;
  op.callBoxed(&results);
  return results;
}

// torch.masked_select by a mask known now reads the positions that are set.
Lowered select_by_known_mask(Recorder& recorder, const OperatorHandle& op, const Stack& arguments) {
  if (full_name(op) != "aten::masked_select") return std::nullopt;
  const at::Tensor self = arguments[0].toTensor();
  const auto mask = recorder.known(arguments[1].toTensor());
  if (!recorder.is_traced(self) || !mask) return std::nullopt;
  const auto shape = at::infer_size(self.sizes(), mask->sizes());
  const at::Tensor positions = mask->to(at::kBool).expand(shape).reshape({-1}).nonzero().reshape({-1});
  CaptureScope capture;
  return Stack{self.expand(shape).reshape({-1}).index_select(0, positions)};
}

// istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, ...): torch asks
// whether the window leaves anything everywhere, which it divides by.
Lowered lower_istft(Recorder& recorder, const OperatorHandle&, Stack& arguments) {
  if (!arguments[4].isTensor() || recorder.known(arguments[4].toTensor())) return std::nullopt;
  throw aspen::UserError(
      "[istft] the window is checked when the model is captured, before inputs, parameters and buffers have values. "
      "Make "
      "it in forward (torch.hann_window(n)), or keep it in the module as a plain tensor.{}",
      recorder.where());
}

// -- ops that run whole ---------------------------------------------------------------------------------------------

// linalg_eigvals(Tensor self): torch's definition writes into a complex tensor, which models cannot.
Lowered lower_whole(Recorder& recorder, const OperatorHandle& op, Stack& arguments) {
  return emit_host_call(recorder, op, arguments);
}

// -- sequences of varying length ----------------------------------------------------------------------------------
// Packing and its inverse only move rows: torch itself, applied to the numbers of the rows, tells where they go. The
// sizes of the batches stay on the host, where torch's recurrent layers read them.

at::Tensor known_sizes(Recorder& recorder, const at::Tensor& sizes, const char* op, const char* what) {
  if (const auto known = recorder.known(sizes)) return known->to(at::kLong);
  throw aspen::UserError(
      "[{}] the {} decide the shape of the packed sequences, and a model is compiled for fixed shapes before there are "
      "values. Give lengths that are no input of the model (a list, or a tensor made in the module), or keep the "
      "sequences padded and mask what lies beyond their ends.{}",
      op, what, recorder.where());
}

// _pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor data, Tensor batch_sizes)
Lowered lower_pack(Recorder& recorder, const OperatorHandle& op, Stack& arguments) {
  const at::Tensor input = arguments[0].toTensor();
  if (!recorder.is_traced(input) || input.dim() < 2) return std::nullopt;
  const std::int64_t rows = input.size(0) * input.size(1);
  Stack results = arguments;
  results[0] = at::arange(rows).view({input.size(0), input.size(1), 1});
  results[1] = known_sizes(recorder, arguments[1].toTensor(), "pack_padded_sequence", "lengths");
  op.callBoxed(&results);
  const at::Tensor order = results[0].toTensor().reshape({-1});
  CaptureScope capture;
  results[0] = input.flatten(0, 1).index_select(0, order);
  return results;
}

// _pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, int total_length)
//   -> (Tensor, Tensor lengths)
Lowered lower_pad_packed(Recorder& recorder, const OperatorHandle& op, Stack& arguments) {
  const at::Tensor data = arguments[0].toTensor();
  if (!recorder.is_traced(data)) return std::nullopt;
  Stack results = arguments;
  results[0] = at::arange(1, data.size(0) + 1).view({-1, 1});  // from 1: 0 is padding
  results[1] = known_sizes(recorder, arguments[1].toTensor(), "pad_packed_sequence", "sizes of the batches");
  results[3] = c10::Scalar(0);
  op.callBoxed(&results);
  const at::Tensor order = results[0].toTensor().squeeze(2);
  std::vector<std::int64_t> shape = order.sizes().vec(), wide = shape;
  for (std::int64_t axis = 1; axis < data.dim(); ++axis) {
    shape.push_back(data.size(axis));
    wide.push_back(1);
  }
  const at::Tensor row = order.sub(1).clamp_min(0).reshape({-1}), is_padding = order.eq(0).view(wide);
  CaptureScope capture;
  results[0] = data.index_select(0, row).reshape(shape).masked_fill(is_padding, arguments[3].toScalar());
  return results;
}

// What to write in place of an op whose result, or its shape, depends on values.
std::string instead_of(const OperatorHandle& op) {
  static const std::map<std::string, std::string> table = {
      {"aten::allclose", "torch.isclose(x, y).all(), a tensor, with torch.where"},
      {"aten::linalg_lstsq", "torch.linalg.pinv(a) @ b, which has one shape for all ranks"},
      {"aten::_unique2", "torch.sort, or torch.bincount with minlength for integers of a known range"},
      {"aten::unique_dim", "torch.sort, or torch.bincount with minlength for integers of a known range"},
      {"aten::unique_consecutive", "x[1:] != x[:-1], which is true where another run begins"},
  };
  const auto found = table.find(op.operator_name().name);
  if (found != table.end()) return found->second;
  return "a form with a fixed shape: torch.where or a multiplication with the mask instead of x[mask], masked_select "
         "and nonzero";
}

}  // namespace

Lowered lower_special(Recorder& recorder, const OperatorHandle& op, Stack& arguments) {
  using Lowering = Lowered (*)(Recorder&, const OperatorHandle&, Stack&);
  static const std::map<std::string, Lowering> table = {
      {"aten::_local_scalar_dense", lower_item},
      {"aten::item", lower_item},
      {"aten::equal", lower_equal},
      {"aten::to", lower_to},
      {"aten::_to_copy", lower_to},
      {"aten::resize_", lower_resize},
      {"aten::resize_as_", lower_resize},
      {"aten::set_", lower_set},
      {"aten::tensor_split", lower_tensor_split},
      {"aten::istft", lower_istft},
      {"aten::linalg_eigvals", lower_whole},
      {"aten::_scaled_dot_product_attention", lower_attention},
      {"aten::_scaled_dot_product_attention_forward", lower_attention},
      {"aten::_pack_padded_sequence", lower_pack},
      {"aten::_pad_packed_sequence", lower_pad_packed},
      {"aten::_nested_tensor_from_mask_left_aligned", lower_is_left_aligned},
  };
  const auto found = table.find(op.operator_name().name);
  return found == table.end() ? std::nullopt : found->second(recorder, op, arguments);
}

Lowered lower_if_known(Recorder& recorder, const OperatorHandle& op, const Stack& arguments) {
  const bool shape_depends = op.hasTag(at::Tag::dynamic_output_shape);
  bool depends = shape_depends || op.hasTag(at::Tag::data_dependent_output);
  // A number or a truth for Python, unlike a tensor, cannot wait until the model runs.
  for (const c10::Argument& returned : op.schema().returns()) {
    depends = depends || !(returned.type()->isSubtypeOf(*c10::OptionalType::ofTensor()) ||
                           returned.type()->isSubtypeOf(*c10::ListType::ofTensors()) ||
                           returned.type()->isSubtypeOf(*c10::ListType::ofOptionalTensors()));
  }
  if (op.operator_name().name == "aten::index") {  // only a mask makes its shape depend on values
    depends = false;
    for_each_tensor(arguments[1], [&](const at::Tensor& index) { depends = depends || is_mask(index); });
  }
  if (!depends) return std::nullopt;
  if (auto results = index_by_known_masks(recorder, op, arguments)) return results;
  if (auto results = select_by_known_mask(recorder, op, arguments)) return results;
  bool all_known = true;
  Stack results = arguments;
  for (IValue& argument : results) {
    argument = map_tensors(argument, [&](const at::Tensor& tensor) {
      const auto known = recorder.known(tensor);
      all_known = all_known && (known || !tensor.defined());
      return known.value_or(tensor);
    });
    if (argument.isDevice()) argument = c10::Device(c10::DeviceType::CPU);
  }
  if (!all_known) {
    throw aspen::UserError(
        "[{}] {} of its result depends on the values of its arguments, and a model is compiled for fixed shapes before "
        "there are values. Use {}.{}",
        full_name(op), shape_depends ? "the shape" : "the value", instead_of(op), recorder.where());
  }
  op.callBoxed(&results);
  for (IValue& result : results) {
    result = map_tensors(result, [&](const at::Tensor& tensor) {
      return tensor.defined() ? recorder.wrap(recorder.value_of(tensor), tensor.scalar_type()) : tensor;
    });
  }
  return results;
}

}  // namespace poptorch
