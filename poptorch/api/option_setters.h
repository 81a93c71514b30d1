// The setters of Options and its groups: one table, from which the methods of the Python classes are made and which
// the C++ ones call.
#pragma once

#include <functional>

#include "poptorch/api/option_store.h"

namespace poptorch {

enum class Expected : std::uint8_t {
  kBool,
  kInt,
  kText,
  kList,  // of texts
  kDict,
  kTruth,  // anything: true or false as Python has it
  kAnything,
  kEnumeration,  // of the parameter's type
  kLocation,     // TensorLocationSettings
};

struct SetterParameter {
  std::string name;
  Expected expected = Expected::kAnything;
  std::string enumeration = {};
  bool may_be_null = false;
  std::optional<OptionValue> standard = {};  // none: must be given
};

struct Setter {
  std::string group, name;
  std::vector<SetterParameter> parameters;
  // Receives one checked argument per parameter: integers for bools where ints are expected, and so on.
  std::function<void(OptionStore&, const OptionList&)> body;
  std::string help;
  bool wrong_kind_is_value_error = false;
};

const std::vector<Setter>& option_setters();
const Setter* find_setter(const std::string& group, const std::string& name);  // nullptr: none
// The argument of each parameter, checked and converted.
OptionList checked_arguments(const Setter& setter, const OptionList& given);

// Of the variable POPLAR_ENGINE_OPTIONS, which overrides what a program says.
OptionDict environment_engine_options();

}  // namespace poptorch
