// Host calls: an op without a lowering becomes a node of the graph that runs the ATen op itself on the CPU, and whose
// gradient comes from torch's autograd for that op. It costs speed, never a model. Only random ops are refused: torch's
// generator knows neither seed nor replicas, and the gradient would draw again.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "poptorch/capture/recorder.h"

namespace poptorch {

torch::jit::Stack emit_host_call(Recorder& recorder, const c10::OperatorHandle& op, const torch::jit::Stack& arguments);

}  // namespace poptorch
