#include "aspen/runtime/float_check.h"

#include <cmath>
#include <string_view>

#include "aspen/base/error.h"

namespace aspen {
namespace {

constexpr std::int64_t kAllFinite = -1;

std::int64_t first_not_finite(const TensorType& type, const void* data) {
  return dispatch_floating(type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* values = static_cast<const T*>(data);
    std::int64_t count = type.numel();
    for (std::int64_t i = 0; i < count; ++i) {
      if (!std::isfinite(static_cast<std::conditional_t<sizeof(T) == 2, float, T>>(values[i]))) return i;
    }
    return kAllFinite;
  });
}

std::string_view kind_of_value(const TensorType& type, const void* data, std::int64_t element) {
  double value = dispatch_floating(type.dtype, [&](auto tag) {
    return static_cast<double>(static_cast<const typename decltype(tag)::type*>(data)[element]);
  });
  return std::isnan(value) ? "NaN" : value > 0 ? "infinity" : "minus infinity";
}

}  // namespace

bool has_finite_inputs(const BoundInstruction& bound) {
  const auto& types = bound.instruction->input_types;
  bool any_floating = false;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (bound.inputs[i] == nullptr || !is_floating(types[i].dtype)) continue;
    any_floating = true;
    if (first_not_finite(types[i], bound.inputs[i]) != kAllFinite) return false;
  }
  return any_floating;
}

void require_finite_outputs(const BoundInstruction& bound) {
  const auto& types = bound.instruction->output_types;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (!is_floating(types[i].dtype)) continue;
    std::int64_t element = first_not_finite(types[i], bound.outputs[i]);
    if (element == kAllFinite) continue;
    throw DeviceError(
        "floating point exception: element {} of output {} ({}) is {}, although all inputs are finite; the program was "
        "compiled to stop at such values.",
        element, i, to_string(types[i]), kind_of_value(types[i], bound.outputs[i], element));
  }
}

}  // namespace aspen
