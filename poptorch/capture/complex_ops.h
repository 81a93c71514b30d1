// Ops with complex numbers, by way of their real and imaginary parts: the graph has real numbers only (complex.h).
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

#include "poptorch/capture/recorder.h"

namespace poptorch {

// Whether an op has to do with complex numbers: takes them, or makes them.
bool concerns_complex(const c10::OperatorHandle& op, const torch::jit::Stack& arguments);

// Results of such an op from ops on the parts of its arguments; nullopt where there is no such form of it.
std::optional<torch::jit::Stack> lower_complex(Recorder& recorder, const c10::OperatorHandle& op,
                                               const torch::jit::Stack& arguments);

}  // namespace poptorch
