// Reading the arguments of an ATen call in the form the lowerings want: operands of one promoted type, axes
// counted from the front, numbers known while capturing. Used by every handler file.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "aspen/ops/build.h"
#include "poptorch/capture/call.h"

namespace poptorch {

namespace build = aspen::build;
using aspen::Builder;
using aspen::DType;
using aspen::Shape;
using aspen::to_string;
using aspen::UserError;
using aspen::Value;
using c10::ScalarType;
using Axes = std::vector<std::int64_t>;

bool is_float(ScalarType type);
ScalarType default_float();                 // torch.get_default_dtype()
ScalarType floating_type(ScalarType type);  // the type itself if it is floating, else the default
ScalarType sum_type(ScalarType type);       // bool and integers add up in int64
ScalarType type_of_scalar(const Call& call, std::string_view argument);  // bool, int64 or the default float

// A tensor or Scalar argument as a value of the given type. Python numbers become scalars of that type at once.
Value* operand(Call& call, std::string_view argument, ScalarType type);
// A tensor argument in the type used for floating point mathematics; integers become the default float.
Value* floating_operand(Call& call, std::string_view argument);
ScalarType floating_dtype(const Call& call, std::string_view argument);

// Axes in [0, rank). Tensors of rank 0 are addressed as if they had one axis.
std::int64_t axis_in(std::int64_t axis, const Shape& shape, const char* who);
std::int64_t axis_argument(Call& call, std::string_view argument, const Shape& shape);
Axes axes_argument(Call& call, std::string_view argument, const Shape& shape);  // None or empty: all axes
Axes all_axes(const Shape& shape);

// A list argument of one or `count` entries, as kernel sizes come.
std::vector<std::int64_t> repeated(const std::vector<std::int64_t>& list, std::size_t count);
double number_or(const Call& call, std::string_view argument, double fallback);
std::int64_t integer_or(const Call& call, std::string_view argument, std::int64_t fallback);

// Elements of a tensor in host memory, in row-major order.
std::vector<double> read_numbers(const at::Tensor& tensor);

// Whether a value is a parameter seen through casts and changes of shape only.
bool is_parameter(Builder& b, const Value* value);
// The type of a product of two operands, one of which may be a parameter kept in another precision: the
// activation decides (torch itself refuses to mix).
ScalarType product_type(Call& call, std::string_view first, std::string_view second);

}  // namespace poptorch
