// The parts of poptorch_core, one file each; module.cpp puts them together.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>

namespace poptorch {

void bind_session(pybind11::module_& module);

// For a run that may last: true once a signal handler raised (Ctrl-C), after `found` was called. Asks the interpreter
// at most every 20 ms: it costs the GIL.
std::function<bool()> signal_watch(std::function<void()> found);

}  // namespace poptorch
