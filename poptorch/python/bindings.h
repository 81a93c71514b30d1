// The parts of the module poptorch_core, a file each.
#pragma once

#include <pybind11/pybind11.h>

namespace poptorch {

void bind_session(pybind11::module_& module);      // the life of a wrapped model
void bind_data_loader(pybind11::module_& module);  // what decides which elements make which item

}  // namespace poptorch
