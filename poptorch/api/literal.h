// Reads values of options from text: JSON, and the statements of a file of options.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "poptorch/api/option_value.h"

namespace poptorch {

// What was expected, and the line where it was not found.
struct LiteralError : std::runtime_error {
  LiteralError(std::size_t where, const std::string& what) : std::runtime_error(what), line(where) {}
  std::size_t line;
};

// `source` names the text in errors, which are poptorch::Error: "POPLAR_ENGINE_OPTIONS".
OptionValue parse_json(const std::string& text, const std::string& source);

// name(arguments, name=value, ...); arguments with a name come after those without.
struct Call {
  std::string name;
  OptionList arguments;
  std::map<std::string, OptionValue> named;
};

// What follows `options.` in Python: `Training.gradientAccumulation(8)  # why`. Arguments are literals of Python or
// C++, members of enumerations, and objects that are made in place, Stage("a").ipu(1): those are foreign objects that
// hold the calls one after the other (made_in_place). A LiteralError if the text is anything else.
Call parse_statement(const std::string& text);

using CallChain = std::vector<Call>;
// The calls that make an object; nullptr if the value is something else. Only for values out of parse_statement.
const CallChain* made_in_place(const OptionValue& value);

}  // namespace poptorch
