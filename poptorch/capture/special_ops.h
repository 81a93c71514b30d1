// Ops that are about more than values: moves between devices, questions that need a value now, changes of memory.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

#include "poptorch/capture/recorder.h"

namespace poptorch {

// Results of such an op; nullopt for all others. May replace an argument for those who come next.
std::optional<torch::jit::Stack> lower_special(Recorder& recorder, const c10::OperatorHandle& op,
                                               torch::jit::Stack& arguments);

// Ops whose result has a shape, or is a number, that depends on values: computed now from constants, else a UserError.
// nullopt for ops that are not of this kind.
std::optional<torch::jit::Stack> lower_if_known(Recorder& recorder, const c10::OperatorHandle& op,
                                                const torch::jit::Stack& arguments);

}  // namespace poptorch
