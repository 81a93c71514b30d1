// Host calls: an op without a lowering becomes a node of the graph that runs the ATen op itself on the CPU, and whose
// gradient comes from torch's autograd for that op. It costs speed, never a model.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>

#include "poptorch/capture/recorder.h"

namespace poptorch {

torch::jit::Stack emit_host_call(Recorder& recorder, const c10::OperatorHandle& op, const torch::jit::Stack& arguments);

// Some shape functions of torch are written in Python; one that fails leaves an error behind that the language
// binding must clear.
void set_foreign_error_cleaner(std::function<void()> clear);

}  // namespace poptorch
