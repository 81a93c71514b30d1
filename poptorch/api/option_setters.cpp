#include "poptorch/api/option_setters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "poptorch/api/literal.h"
#include "poptorch/api/option_table.h"
#include "poptorch/api/spelling.h"
#include "poptorch/error.h"

namespace poptorch {
namespace {

std::string expectation(const SetterParameter& parameter) {
  const bool python = language() == Language::kPython;
  std::string text;
  switch (parameter.expected) {
    case Expected::kBool: text = "a bool"; break;
    case Expected::kInt: text = "an int"; break;
    case Expected::kText: text = python ? "a str" : "a string"; break;
    case Expected::kList: text = python ? "a list of str" : "a list of strings"; break;
    case Expected::kDict: text = python ? "a dict" : "a map"; break;
    case Expected::kEnumeration:
      text = "a member of " + spelled("poptorch::" + parameter.enumeration);
      if (parameter.enumeration == "dtype")
        text = python ? "torch.float or torch.half" : "torch::kFloat or torch::kHalf";
      break;
    case Expected::kLocation: text = spelled("poptorch::TensorLocationSettings"); break;
    case Expected::kTruth:
    case Expected::kAnything: text = "a value"; break;
  }
  return parameter.may_be_null ? text + " or " + spelled_null() : text;
}

bool is_list_of_texts(const OptionValue& value) {
  const auto* list = value.as<OptionList>();
  const auto is_text = [](const OptionValue& item) { return item.as<std::string>() != nullptr; };
  return list != nullptr && std::all_of(list->begin(), list->end(), is_text);
}

std::optional<OptionValue> converted(const SetterParameter& parameter, const OptionValue& value) {
  const auto if_is = [&](bool fits) { return fits ? std::optional(value) : std::nullopt; };
  if (value.is_null() && parameter.may_be_null) return value;
  switch (parameter.expected) {
    case Expected::kBool: return if_is(value.as<bool>() != nullptr);
    case Expected::kInt:
      if (value.as<bool>() != nullptr || value.as<EnumMember>() != nullptr) return OptionValue(value.integer());
      return if_is(value.is_integer());
    case Expected::kText: return if_is(value.as<std::string>() != nullptr);
    case Expected::kList: return if_is(is_list_of_texts(value));
    case Expected::kDict: return if_is(value.as<OptionDict>() != nullptr);
    case Expected::kTruth: return OptionValue(value.truth());
    case Expected::kAnything: return value;
    case Expected::kEnumeration:
      return if_is(value.as<EnumMember>() != nullptr && value.as<EnumMember>()->type == parameter.enumeration);
    case Expected::kLocation: return if_is(value.as<LocationEntries>() != nullptr);
  }
  return std::nullopt;
}

}  // namespace

OptionDict environment_engine_options() {
  const char* written = std::getenv("POPLAR_ENGINE_OPTIONS");
  if (written == nullptr || *written == '\0') return {};
  const OptionValue value = parse_json(written, "POPLAR_ENGINE_OPTIONS");
  if (const auto* options = value.as<OptionDict>()) return *options;
  throw Error(
      fmt::format("[POPLAR_ENGINE_OPTIONS] line 1 is {}; expected a JSON object of engine options.", kind_of(value)));
}

const std::vector<Setter>& option_setters() {
  static const std::vector<Setter> table = [] {
    std::vector<Setter> made;
    option_table::add_general(made);
    option_table::add_groups(made);
    return made;
  }();
  return table;
}

const Setter* find_setter(const std::string& group, const std::string& name) {
  for (const Setter& setter : option_setters()) {
    if (setter.group == group && setter.name == name) return &setter;
  }
  return nullptr;
}

OptionList checked_arguments(const Setter& setter, const OptionList& given) {
  if (given.size() > setter.parameters.size()) {
    throw ArgumentError(
        fmt::format("[{}] takes {} arguments, but {} were given", setter.name, setter.parameters.size(), given.size()));
  }
  OptionList checked;
  for (std::size_t i = 0; i < setter.parameters.size(); ++i) {
    const SetterParameter& parameter = setter.parameters[i];
    if (i >= given.size()) {
      if (!parameter.standard) {
        throw ArgumentError(
            fmt::format("[{}] needs the argument {}: {}", setter.name, parameter.name, expectation(parameter)));
      }
      checked.push_back(*parameter.standard);
      continue;
    }
    std::optional<OptionValue> value = converted(parameter, given[i]);
    if (!value) {
      const std::string place = setter.parameters.size() == 1 ? "" : " as " + parameter.name;
      const std::string message =
          fmt::format("{} expects {}{}, not {}", setter.name, expectation(parameter), place, text_of(given[i]));
      if (setter.wrong_kind_is_value_error) throw ValueError(message);
      throw ArgumentError(message);
    }
    checked.push_back(std::move(*value));
  }
  return checked;
}

}  // namespace poptorch
