#include "poptorch/api/option_value.h"

#include <fmt/format.h>

#include <limits>

#include "poptorch/api/spelling.h"

namespace poptorch {
namespace {

using Members = std::vector<std::pair<const char*, std::int64_t>>;

const std::map<std::string, Members>& enumerations() {
  static const std::map<std::string, Members> table = {
      {"AutoStage", {{"SameAsIpu", 0}, {"AutoIncrement", 1}}},
      {"CommGroupType", {{"All", 0}, {"Consecutive", 1}, {"Orthogonal", 2}, {"NoGrouping", 3}}},
      {"ConnectionType", {{"Always", 0}, {"OnDemand", 1}, {"Never", 2}}},
      {"HalfFloatCastingBehavior", {{"FloatDowncastToHalf", 0}, {"HalfUpcastToFloat", 1}, {"Default", 2}}},
      {"Liveness",
       {{"AlwaysLive", 0}, {"OffChipAfterFwd", 1}, {"OffChipAfterFwdNoOverlap", 2}, {"OffChipAfterEachPhase", 3}}},
      {"MeanReductionStrategy", {{"Running", 0}, {"Post", 1}, {"PostAndLoss", 2}}},
      {"OutputMode", {{"Final", 0}, {"EveryN", 1}, {"All", 2}, {"Sum", 3}, {"Default", 4}}},
      {"ReductionType", {{"Sum", 0}, {"Mean", 1}, {"NoReduction", 2}}},
      {"SyncPattern", {{"Full", 0}, {"SinglePipeline", 1}, {"ReplicaAndLadder", 2}}},
      // The numbers of c10::ScalarType; a file of options writes torch.half.
      {"dtype", {{"float16", 5}, {"half", 5}, {"float32", 6}, {"float", 6}}},
  };
  return table;
}

// With :: between its parts.
std::string name_of(const EnumMember& member) {
  const std::string type = member.type == "dtype" ? "torch" : member.type;
  const auto found = enumerations().find(member.type);
  if (found != enumerations().end()) {
    for (const auto& [name, value] : found->second) {
      if (value == member.value) return type + "::" + name;
    }
  }
  return fmt::format("{}({})", type, member.value);
}

std::string escaped(const std::string& text, char quote) {
  std::string result(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\') {
      result += {'\\', c};
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + quote;
}

std::string number(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

// How the parts of a text are written.
struct Format {
  bool is_json = false;

  std::string string(const std::string& text) const { return is_json ? escaped(text, '"') : quoted(text); }
  std::string key(const OptionKey& key) const {
    if (const auto* name = std::get_if<std::string>(&key)) return string(*name);
    const std::string digits = std::to_string(std::get<std::int64_t>(key));
    return is_json ? string(digits) : digits;
  }

  std::string operator()(const OptionValue& value) const {
    return std::visit([this](const auto& data) { return write(data); }, value.data);
  }
  std::string write(std::monostate) const { return is_json ? "null" : spelled_null(); }
  std::string write(bool value) const { return is_json ? (value ? "true" : "false") : spelled(value); }
  std::string write(std::int64_t value) const { return std::to_string(value); }
  std::string write(std::uint64_t value) const { return std::to_string(value); }
  std::string write(double value) const { return number(value); }
  std::string write(const std::string& value) const { return string(value); }
  std::string write(const EnumMember& member) const {
    if (!is_json) return spelled(name_of(member));
    std::string name = name_of(member);
    const auto colons = name.find("::");
    if (colons != std::string::npos) name.replace(colons, 2, ".");
    return string(name);
  }
  std::string write(const OptionList& list) const {
    std::string text;
    for (const OptionValue& value : list) text += (text.empty() ? "" : ", ") + (*this)(value);
    return "[" + text + "]";
  }
  std::string write(const OptionDict& dict) const {
    std::string text;
    for (const auto& [name, value] : dict) text += (text.empty() ? "" : ", ") + key(name) + ": " + (*this)(value);
    return "{" + text + "}";
  }
  std::string write(const LocationEntries& location) const {
    OptionDict dict;
    for (const auto& [name, value] : location.entries) dict[name] = value;
    return write(dict);
  }
  std::string write(const ForeignObject& object) const { return is_json ? string(object.text) : object.text; }
};

}  // namespace

OptionValue::OptionValue(std::uint64_t value) {
  if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    data = static_cast<std::int64_t>(value);
  } else {
    data = value;
  }
}

bool OptionValue::is_integer() const {
  return as<std::int64_t>() != nullptr || as<std::uint64_t>() != nullptr || as<bool>() != nullptr;
}

std::int64_t OptionValue::integer() const {
  if (const auto* value = as<std::uint64_t>()) return static_cast<std::int64_t>(*value);
  if (const auto* value = as<bool>()) return *value ? 1 : 0;
  if (const auto* value = as<EnumMember>()) return value->value;
  return std::get<std::int64_t>(data);
}

bool OptionValue::truth() const {
  if (is_null()) return false;
  if (is_integer() || as<EnumMember>() != nullptr) return integer() != 0;
  if (const auto* value = as<double>()) return *value != 0;
  if (const auto* value = as<std::string>()) return !value->empty();
  if (const auto* value = as<OptionList>()) return !value->empty();
  if (const auto* value = as<OptionDict>()) return !value->empty();
  return true;
}

std::string text_of(const OptionValue& value) { return Format{}(value); }

std::string json_of(const OptionValue& value) { return Format{.is_json = true}(value); }

std::string quoted(const std::string& text) { return escaped(text, language() == Language::kPython ? '\'' : '"'); }

std::string kind_of(const OptionValue& value) {
  const bool python = language() == Language::kPython;
  if (value.as<bool>() != nullptr) return "a bool";
  if (value.is_integer()) return "an int";
  if (value.as<double>() != nullptr) return python ? "a float" : "a double";
  if (value.as<std::string>() != nullptr) return python ? "a str" : "a string";
  if (value.as<OptionList>() != nullptr) return "a list";
  if (value.as<OptionDict>() != nullptr) return python ? "a dict" : "a map";
  if (const auto* member = value.as<EnumMember>()) return "a member of " + member->type;
  return "a value";
}

OptionValue enum_member(const std::string& name) {
  const auto dot = name.find_first_of(".:");
  if (dot == std::string::npos) return {};
  const std::string type = name.substr(0, dot) == "torch" ? "dtype" : name.substr(0, dot);
  const auto found = enumerations().find(type);
  if (found == enumerations().end()) return {};
  const std::string member = name.substr(name.compare(dot, 2, "::") == 0 ? dot + 2 : dot + 1);
  for (const auto& [known, value] : found->second) {
    if (known == member) return EnumMember{found->first, value};
  }
  return {};
}

}  // namespace poptorch
