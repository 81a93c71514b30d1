#include "poptorch/api/custom_op_attributes.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>

#include "poptorch/api/literal.h"
#include "poptorch/error.h"

namespace poptorch {
namespace {

using Value = CustomOpAttributes::Value;

std::optional<Value> simple_value(const std::string& name, const OptionValue& value) {
  if (const auto* integer = value.as<std::int64_t>()) return *integer;
  if (const auto* number = value.as<double>()) return attribute_float(name, *number);
  if (const auto* text = value.as<std::string>()) return *text;
  return std::nullopt;
}

// All elements of one kind, as a vector of it.
template <class T>
std::optional<Value> list_of(const std::string& name, const OptionList& list) {
  std::vector<T> values;
  for (const OptionValue& element : list) {
    const auto value = simple_value(name, element);
    if (!value || !std::holds_alternative<T>(*value)) return std::nullopt;
    values.push_back(std::get<T>(*value));
  }
  return values;
}

Value value_of(const std::string& name, const OptionValue& value) {
  if (auto simple = simple_value(name, value)) return *simple;
  const auto* list = value.as<OptionList>();
  if (list != nullptr && !list->empty()) {
    if (auto integers = list_of<std::int64_t>(name, *list)) return *integers;
    if (auto numbers = list_of<float>(name, *list)) return *numbers;
    if (auto texts = list_of<std::string>(name, *list)) return *texts;
  }
  throw ValueError(
      fmt::format("Attribute \"{}\" must be a float, an int, a text, or a list of one kind of these", name));
}

}  // namespace

CustomOpAttributes attributes_from_json(const std::string& text) {
  if (text.empty()) return {};
  const OptionValue parsed = parse_json(text, "the attributes of custom_operation");
  const auto* dict = parsed.as<OptionDict>();
  if (dict == nullptr) throw ValueError(fmt::format("The attributes of an operator are a JSON object, not {}", text));
  CustomOpAttributes::Map values;
  for (const auto& [key, value] : *dict) {
    const auto* name = std::get_if<std::string>(&key);
    if (name == nullptr) throw ValueError("The name of an attribute must be a text");
    values.emplace(*name, value_of(*name, value));
  }
  return CustomOpAttributes(std::move(values));
}

float attribute_float(const std::string& name, double value) {
  if (!std::isfinite(value) || std::abs(value) <= std::numeric_limits<float>::max()) return static_cast<float>(value);
  throw Error(fmt::format("[custom_op] attribute \"{}\" is {}, which float32 cannot hold.", name, value));
}

}  // namespace poptorch
