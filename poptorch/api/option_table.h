// What the parts of the table of setters are written with. One function adds each part.
#pragma once

#include "poptorch/api/option_setters.h"

namespace poptorch::option_table {

void add_general(std::vector<Setter>& table);
void add_groups(std::vector<Setter>& table);  // those of Training, Precision and the others

using Body = std::function<void(OptionStore&, const OptionList&)>;

inline Body into(const char* group, const char* key) {
  return [=](OptionStore& store, const OptionList& a) { store.put(group, key, a[0]); };
}

// Enumerations that programs read as numbers.
inline Body number_into(const char* key) {
  return [=](OptionStore& store, const OptionList& a) { store.put(kGeneral, key, a[0].integer()); };
}

inline SetterParameter boolean(const char* name, std::optional<OptionValue> standard = {}) {
  return {name, Expected::kBool, {}, false, std::move(standard)};
}
inline SetterParameter integer(const char* name, std::optional<OptionValue> standard = {}) {
  return {name, Expected::kInt, {}, false, std::move(standard)};
}
inline SetterParameter text(const char* name) { return {name, Expected::kText}; }
inline SetterParameter truth(const char* name, std::optional<OptionValue> standard = {}) {
  return {name, Expected::kTruth, {}, false, std::move(standard)};
}
inline SetterParameter member(const char* name, const char* enumeration) {
  return {name, Expected::kEnumeration, enumeration};
}
inline SetterParameter optional(SetterParameter parameter, OptionValue standard = {}) {
  parameter.may_be_null = true;
  parameter.standard = std::move(standard);
  return parameter;
}

}  // namespace poptorch::option_table
