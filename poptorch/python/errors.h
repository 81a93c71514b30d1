// C++ errors as Python exceptions of the classes that include/poptorch/error.h names.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

namespace poptorch {

void register_error_translation();
void set_error_classes(const pybind11::object& module);  // with our classes; RuntimeError until it is called

// When `error` is the interpreter's form of our error with this text (torch turns it into a RuntimeError on its way
// through an op), throws it as our own with the interpreter's as its cause. Otherwise returns.
void rethrow_as_our_own(pybind11::error_already_set& error, const std::string& text);

}  // namespace poptorch
