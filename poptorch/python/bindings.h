// The parts of the module poptorch_core, a file each.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "poptorch/model/host_weights.h"

namespace poptorch {

void bind_options(pybind11::module_& module);       // the store of settings, and what follows from them
void bind_optimizers(pybind11::module_& module);    // what they are made of, and the state on the device
void bind_session(pybind11::module_& module);       // the life of a wrapped model
void bind_saved_models(pybind11::module_& module);  // files of compiled models
void bind_data_loader(pybind11::module_& module);   // what decides which elements make which item
void bind_strategies(pybind11::module_& module);    // stages, phases, and who runs them
void bind_annotations(pybind11::module_& module);   // blocks and other scopes in a forward
void bind_ops(pybind11::module_& module);           // functions to call in a forward
void bind_cpu_layers(pybind11::module_& module);    // layers on the host
void bind_custom_ops(pybind11::module_& module);    // operators of the user's own
void bind_host_ops(pybind11::module_& module);      // decoding and points
void bind_environment(pybind11::module_& module);   // the hardware, the log and trace points

// Let go of with the GIL, whoever is the last to hold it.
std::shared_ptr<pybind11::object> shared_object(pybind11::object object);

// turn: calls its argument in the executor's turn and returns what that returns.
HostWeights::Turn python_turn(pybind11::function turn);

}  // namespace poptorch
