#include "aspen/runtime/float_check.h"

#include <cmath>
#include <string_view>

#include "aspen/backends/api/convert.h"
#include "aspen/base/error.h"

namespace aspen {
namespace {

constexpr std::int64_t kNone = -1;

// As dispatch_floating, with bfloat16: nothing is computed here.
template <class F>
auto dispatch_stored_floating(DType type, F&& f) {
  return type == DType::kBF16 ? f(TypeTag<BFloat16>{}) : dispatch_floating(type, std::forward<F>(f));
}

// The first element that is not allowed.
std::int64_t first_against(const TensorType& type, const void* data, AllowedFloats allowed) {
  return dispatch_stored_floating(type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Wide = Accumulator<T>;
    const T* values = static_cast<const T*>(data);
    std::int64_t count = type.numel();
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<Wide>(values[i]);
      if (allowed == AllowedFloats::kFinite ? !std::isfinite(value) : std::isnan(value)) return i;
    }
    return kNone;
  });
}

bool is_ordered_comparison(std::string_view op) { return op == "lt" || op == "le" || op == "gt" || op == "ge"; }

std::string_view kind_of_value(const TensorType& type, const void* data, std::int64_t element) {
  double value = dispatch_stored_floating(type.dtype, [&](auto tag) {
    return convert<double>(static_cast<const typename decltype(tag)::type*>(data)[element]);
  });
  return std::isnan(value) ? "NaN" : value > 0 ? "infinity" : "minus infinity";
}

}  // namespace

bool is_finite(const TensorType& type, const void* data) {
  return first_against(type, data, AllowedFloats::kFinite) == kNone;
}

AllowedFloats allowed_floats(const BoundInstruction& bound) {
  if (bound.instruction->spans_replicas) return AllowedFloats::kAll;  // what the replicas hold was checked before
  const auto& inputs = bound.instruction->request.inputs;
  bool any_floating = false, all_finite = true;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorType& type = inputs[i].type;
    if (bound.inputs[i] == nullptr || !is_floating(type.dtype)) continue;
    any_floating = true;
    if (first_against(type, bound.inputs[i], AllowedFloats::kFinite) == kNone) continue;
    all_finite = false;
    const std::int64_t nan = first_against(type, bound.inputs[i], AllowedFloats::kNoNan);
    if (nan == kNone) continue;
    if (!is_ordered_comparison(bound.instruction->request.op)) return AllowedFloats::kAll;
    throw UserError(
        "floating point exception: element {} of input {} ({}) of an ordered comparison is NaN; the program was "
        "compiled "
        "to stop at such values.",
        nan, i, to_string(type));
  }
  if (!any_floating) return AllowedFloats::kAll;
  return all_finite ? AllowedFloats::kFinite : AllowedFloats::kNoNan;
}

void check_outputs(const BoundInstruction& bound, AllowedFloats allowed) {
  if (allowed == AllowedFloats::kAll) return;
  const auto& types = bound.instruction->request.outputs;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (!is_floating(types[i].dtype)) continue;
    const std::int64_t element = first_against(types[i], bound.outputs[i], allowed);
    if (element == kNone) continue;
    throw UserError(
        "floating point exception: element {} of output {} ({}) is {}, although {}; the program was compiled to stop "
        "at "
        "such values.",
        element, i, to_string(types[i]), kind_of_value(types[i], bound.outputs[i], element),
        allowed == AllowedFloats::kFinite ? "all inputs are finite" : "no input is NaN");
  }
}

}  // namespace aspen
