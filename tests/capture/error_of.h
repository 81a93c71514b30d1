// The text of the error that a function throws.
#pragma once

#include <poptorch/error.h>

#include <string>

namespace poptorch::tests {

template <class Kind = Error, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Kind& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace poptorch::tests
