// OptionValue: what an option may hold, in either language. Options are kept by name (option_store.h); JSON, files of
// options, the text form and the Python binding all speak in these values.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace poptorch {

struct OptionValue;

// A member of an enumeration: {"OutputMode", 2}. The types torch.half and torch.float are members of "dtype".
struct EnumMember {
  std::string type;
  std::int64_t value = 0;
  bool operator==(const EnumMember&) const = default;
};

// The entries of a TensorLocationSettings, on their way into an option.
struct LocationEntries {
  std::map<std::string, std::int64_t> entries;
  bool operator==(const LocationEntries&) const = default;
};

// An object of the user's language that no option takes; kept, so that it can be read back and named in an error.
struct ForeignObject {
  std::shared_ptr<void> object;
  std::string text;
  bool operator==(const ForeignObject&) const = default;
};

using OptionList = std::vector<OptionValue>;
using OptionKey = std::variant<std::int64_t, std::string>;
using OptionDict = std::map<OptionKey, OptionValue>;

struct OptionValue {
  // An unsigned number is one that does not fit into the signed type.
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, EnumMember, OptionList,
               OptionDict, LocationEntries, ForeignObject>
      data;

  OptionValue() = default;
  OptionValue(bool value) : data(value) {}
  OptionValue(int value) : data(std::int64_t{value}) {}
  OptionValue(std::int64_t value) : data(value) {}
  OptionValue(std::uint64_t value);
  OptionValue(double value) : data(value) {}
  OptionValue(const char* value) : data(std::string(value)) {}
  OptionValue(std::string value) : data(std::move(value)) {}
  OptionValue(EnumMember value) : data(std::move(value)) {}
  OptionValue(OptionList value) : data(std::move(value)) {}
  OptionValue(OptionDict value) : data(std::move(value)) {}
  OptionValue(LocationEntries value) : data(std::move(value)) {}
  OptionValue(ForeignObject value) : data(std::move(value)) {}
  bool operator==(const OptionValue&) const = default;

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
  bool is_null() const { return data.index() == 0; }
  bool is_integer() const;       // of either sign, or a bool: true is 1
  std::int64_t integer() const;  // of a value for which is_integer, or an enumeration member; wraps around
  bool truth() const;            // as Python has it: zero and what is empty are false
};

// The same for equal values, never an address: numbers and names as the user's language writes them.
std::string text_of(const OptionValue& value);
std::string json_of(const OptionValue& value);
std::string quoted(const std::string& text);  // as a literal of the user's language
// "an int", "a str" in Python; the same ideas in C++.
std::string kind_of(const OptionValue& value);

// "OutputMode.All" or "OutputMode::All" as a member; a null value if no enumeration of the options has it.
OptionValue enum_member(const std::string& name);

}  // namespace poptorch
