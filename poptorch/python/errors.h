// C++ errors as Python exceptions: instances of the class the package names, with message, type and location.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

namespace poptorch {

void register_error_translation();
void set_error_class(const pybind11::object& error_class);  // RuntimeError until it is called

// When `error` is the interpreter's form of our error with this text (torch turns it into a RuntimeError on its way
// through an op), throws it as our own with the interpreter's as its cause. Otherwise returns.
void rethrow_as_our_own(pybind11::error_already_set& error, const std::string& text);

}  // namespace poptorch
