#include "poptorch/aten/support/arguments.h"

#include <ATen/core/Tensor.h>
#include <c10/core/DefaultDtype.h>

#include <numeric>

namespace poptorch {

bool is_float(ScalarType type) { return c10::isFloatingType(type); }

ScalarType default_float() { return c10::typeMetaToScalarType(c10::get_default_dtype()); }

ScalarType floating_type(ScalarType type) { return is_float(type) ? type : default_float(); }

ScalarType sum_type(ScalarType type) { return is_float(type) ? type : ScalarType::Long; }

ScalarType type_of_scalar(const Call& call, std::string_view argument) {
  const c10::IValue& value = call.raw(argument);
  if (value.isBool()) return ScalarType::Bool;
  return value.isInt() ? ScalarType::Long : default_float();
}

Value* operand(Call& call, std::string_view argument, ScalarType type) {
  DType dtype = graph_dtype(type);
  if (!call.raw(argument).isTensor()) return build::scalar(call.b, dtype, call.number(argument));
  if (call.is_wrapped_number(argument)) {
    if (auto known = call.known(argument)) return build::scalar(call.b, dtype, read_numbers(*known).at(0));
  }
  return build::cast(call.b, call.value(argument), dtype);
}

ScalarType floating_dtype(const Call& call, std::string_view argument) { return floating_type(call.dtype(argument)); }

Value* floating_operand(Call& call, std::string_view argument) {
  return operand(call, argument, floating_dtype(call, argument));
}

std::int64_t axis_in(std::int64_t axis, const Shape& shape, const char* who) {
  return aspen::normalize_axis(axis, shape.empty() ? Shape{1} : shape, who);
}

std::int64_t axis_argument(Call& call, std::string_view argument, const Shape& shape) {
  return axis_in(call.integer(argument), shape, call.name().c_str());
}

Axes all_axes(const Shape& shape) {
  Axes axes(shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Axes axes_argument(Call& call, std::string_view argument, const Shape& shape) {
  if (!call.has(argument)) return all_axes(shape);
  const c10::IValue& raw = call.raw(argument);
  Axes axes = raw.isInt() ? Axes{call.integer(argument)} : call.integers(argument);
  if (axes.empty()) return all_axes(shape);
  for (auto& axis : axes) axis = axis_in(axis, shape, call.name().c_str());
  std::sort(axes.begin(), axes.end());
  if (auto twice = std::adjacent_find(axes.begin(), axes.end()); twice != axes.end()) {
    throw UserError("[{}] axis {} is named twice; name each axis once.", call.name(), *twice);
  }
  return shape.empty() ? Axes{} : axes;
}

std::vector<std::int64_t> repeated(const std::vector<std::int64_t>& list, std::size_t count) {
  return list.size() == 1 ? std::vector<std::int64_t>(count, list[0]) : list;
}

double number_or(const Call& call, std::string_view argument, double fallback) {
  return call.has(argument) ? call.number(argument) : fallback;
}

std::int64_t integer_or(const Call& call, std::string_view argument, std::int64_t fallback) {
  return call.has(argument) ? call.integer(argument) : fallback;
}

namespace {

template <class T>
std::vector<double> read_as(const at::Tensor& tensor) {
  const T* data = static_cast<const T*>(tensor.data_ptr());
  auto sizes = tensor.sizes(), strides = tensor.strides();
  std::vector<double> numbers(static_cast<std::size_t>(tensor.numel()));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::int64_t rest = static_cast<std::int64_t>(i), offset = 0;
    for (std::int64_t d = tensor.dim() - 1; d >= 0; --d) {
      offset += rest % sizes[d] * strides[d];
      rest /= sizes[d];
    }
    numbers[i] = static_cast<double>(data[offset]);
  }
  return numbers;
}

}  // namespace

std::vector<double> read_numbers(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case ScalarType::Bool: return read_as<bool>(tensor);
    case ScalarType::Byte: return read_as<std::uint8_t>(tensor);
    case ScalarType::Char: return read_as<std::int8_t>(tensor);
    case ScalarType::Short: return read_as<std::int16_t>(tensor);
    case ScalarType::Int: return read_as<std::int32_t>(tensor);
    case ScalarType::Long: return read_as<std::int64_t>(tensor);
    case ScalarType::Half: return read_as<c10::Half>(tensor);
    case ScalarType::BFloat16: return read_as<c10::BFloat16>(tensor);
    case ScalarType::Float: return read_as<float>(tensor);
    case ScalarType::Double: return read_as<double>(tensor);
    default: break;
  }
  throw UserError("tensors of type {} cannot be read; the types are bool, integers and floating point.",
                  c10::toString(tensor.scalar_type()));
}

bool is_parameter(Builder& b, const Value* value) {
  while (const aspen::Op* op = value->producer()) {
    if (!op->is("cast") && !op->is("reshape") && !op->is("transpose") && !op->is("broadcast")) return false;
    value = op->input(0);
  }
  const aspen::Variable* variable = b.graph().variable_of(value);
  return variable != nullptr && variable->kind == aspen::VariableKind::kParameter;
}

ScalarType product_type(Call& call, std::string_view first, std::string_view second) {
  ScalarType a = call.dtype(first), b = call.dtype(second);
  if (a == b) return a;
  if (is_float(a) && is_float(b)) {
    bool first_is_parameter = is_parameter(call.b, call.value(first));
    bool second_is_parameter = is_parameter(call.b, call.value(second));
    if (first_is_parameter != second_is_parameter) return first_is_parameter ? b : a;
  }
  return c10::promoteTypes(a, b);
}

}  // namespace poptorch
