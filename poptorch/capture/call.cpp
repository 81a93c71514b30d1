#include "poptorch/capture/call.h"

#include <ATen/native/TypeProperties.h>

#include "aspen/ops/build.h"
#include "aspen/ops/shape/shape.h"
#include "poptorch/capture/dispatch.h"
#include "poptorch/capture/recorder.h"
#include "poptorch/capture/tensors.h"
#include "poptorch/capture/traced_impl.h"

namespace poptorch {

using aspen::Value;
using c10::IValue;
using c10::ScalarType;

namespace {

c10::optional<int> find_argument(const c10::FunctionSchema& schema, std::string_view name) {
  return schema.argumentIndexWithName(c10::string_view(name.data(), name.size()));
}

}  // namespace

Call::Call(Recorder& recorder, const c10::OperatorHandle& op, torch::jit::Stack& arguments)
    : b(recorder.b), recorder_(recorder), op_(op), arguments_(arguments) {}

std::string Call::name() const { return full_name(op_); }

std::size_t Call::index_of(std::string_view argument) const {
  const auto index = find_argument(schema(), argument);
  if (!index) throw aspen::InternalError("{} has no argument \"{}\"", name(), argument);
  return static_cast<std::size_t>(*index);
}

bool Call::has(std::string_view argument) const {
  const auto index = find_argument(schema(), argument);
  if (!index) return false;
  const IValue& value = arguments_[static_cast<std::size_t>(*index)];
  return !value.isNone() && !(value.isTensor() && !value.toTensor().defined());
}

const IValue& Call::raw(std::string_view argument) const { return arguments_[index_of(argument)]; }

Value* Call::value(std::string_view argument) {
  return has(argument) ? recorder_.value_of(raw(argument).toTensor()) : nullptr;
}

std::vector<Value*> Call::values(std::string_view argument) {
  std::vector<Value*> values;
  const IValue& list = raw(argument);
  if (list.isOptionalTensorList()) {
    for (c10::optional<at::Tensor> tensor : list.toOptionalTensorList()) {
      values.push_back(tensor ? recorder_.value_of(*tensor) : nullptr);
    }
  } else {
    for_each_tensor(list, [&](const at::Tensor& tensor) { values.push_back(recorder_.value_of(tensor)); });
  }
  return values;
}

ScalarType Call::dtype(std::string_view argument) const { return raw(argument).toTensor().scalar_type(); }

std::vector<ScalarType> Call::dtypes(std::string_view argument) const {
  std::vector<ScalarType> types;
  for_each_tensor(raw(argument), [&](const at::Tensor& tensor) {
    types.push_back(tensor.defined() ? tensor.scalar_type() : ScalarType::Undefined);
  });
  return types;
}

bool Call::is_wrapped_number(std::string_view argument) const {
  return raw(argument).toTensor().unsafeGetTensorImpl()->is_wrapped_number();
}

std::int64_t Call::integer(std::string_view argument) const {
  const IValue& value = raw(argument);
  return value.isScalar() ? value.toScalar().toLong() : value.toInt();
}

double Call::number(std::string_view argument) const { return raw(argument).toScalar().toDouble(); }

bool Call::is_integral_scalar(std::string_view argument) const {
  return raw(argument).toScalar().isIntegral(/*includeBool=*/true);
}

bool Call::boolean(std::string_view argument) const { return raw(argument).toBool(); }

std::string Call::text(std::string_view argument) const { return raw(argument).toStringRef(); }

std::vector<std::int64_t> Call::integers(std::string_view argument) const {
  const IValue& value = raw(argument);
  if (value.isInt()) return {value.toInt()};
  return value.toIntVector();
}

std::vector<double> Call::numbers(std::string_view argument) const {
  const IValue& value = raw(argument);
  if (value.isDoubleList()) return value.toDoubleVector();
  std::vector<double> numbers;
  for (const IValue& entry : value.toListRef()) numbers.push_back(entry.toScalar().toDouble());
  return numbers;
}

std::optional<ScalarType> Call::dtype_option(std::string_view argument) const {
  if (!has(argument)) return std::nullopt;
  return raw(argument).toScalarType();
}

std::optional<at::Tensor> Call::known(std::string_view argument) {
  return has(argument) ? recorder_.known(raw(argument).toTensor()) : std::nullopt;
}

ScalarType Call::result_type(const std::vector<std::string_view>& arguments) const {
  at::native::ResultTypeState state;
  for (std::string_view argument : arguments) {
    const IValue& value = raw(argument);
    if (value.isScalar()) {
      state = at::native::update_result_type_state(value.toScalar(), state);
    } else {
      for_each_tensor(value, [&](const at::Tensor& tensor) {
        if (tensor.defined()) state = at::native::update_result_type_state(tensor, state);
      });
    }
  }
  return at::native::result_type(state);
}

void Call::result(Value* value) {
  // i32 stands for int32 and int64, f32 for float32 and float64: as the first argument of that graph type has it.
  ScalarType type = default_torch_dtype(value->dtype());
  bool found = false;
  for_each_tensor(arguments_, [&](const at::Tensor& tensor) {
    if (found || !tensor.defined() || graph_dtype(tensor.scalar_type()) != value->dtype()) return;
    type = tensor.scalar_type();
    found = true;
  });
  result(value, type);
}

void Call::result(Value* value, ScalarType type) { results_.emplace_back(recorder_.wrap(value, type)); }

void Call::result_list(const std::vector<Value*>& values, std::optional<ScalarType> type) {
  c10::List<at::Tensor> list;
  for (Value* value : values) {
    if (type) {
      list.push_back(recorder_.wrap(value, *type));
    } else {
      result(value);
      list.push_back(results_.back().toTensor());
      results_.pop_back();
    }
  }
  results_.emplace_back(std::move(list));
}

void Call::result_undefined() { results_.emplace_back(at::Tensor()); }

void Call::view(std::string_view argument, const ViewChain& chain) {
  const auto traced = recorder_.find_or_adopt(raw(argument).toTensor());
  results_.emplace_back(make_traced(traced->view(b, chain)));
}

void Call::view_list(std::string_view argument, const std::vector<ViewChain>& chains) {
  const auto traced = recorder_.find_or_adopt(raw(argument).toTensor());
  c10::List<at::Tensor> list;
  for (const ViewChain& chain : chains) list.push_back(make_traced(traced->view(b, chain)));
  results_.emplace_back(std::move(list));
}

void Call::reshaped(std::string_view argument, const aspen::Shape& shape) {
  const auto traced = recorder_.find_or_adopt(raw(argument).toTensor());
  if (traced->reshapes_in_place(shape)) {
    return view(argument, {{"reshape", aspen::Attrs::of(aspen::ReshapeAttrs{shape})}});
  }
  result(aspen::build::reshape(b, traced->read(b), shape), traced->dtype());
}

bool Call::is_contiguous(std::string_view argument) {
  return recorder_.find_or_adopt(raw(argument).toTensor())->is_contiguous();
}

void Call::same(std::string_view argument) { results_.push_back(raw(argument)); }

void Call::write(std::string_view argument, Value* value) { recorder_.write(raw(argument).toTensor(), value); }

// With gradients off it is a measure, or the inside of a function with its own backward pass: nothing trains on it.
Value* Call::loss(Value* value) { return training() && !b.no_grad ? b.make("loss", {value}) : value; }

std::int64_t Call::new_stream() { return recorder_.new_stream(); }

bool Call::training() const { return recorder_.training(); }

}  // namespace poptorch
