// Host calls: an op without a lowering becomes a node of the graph that runs the ATen op itself on the CPU, and whose
// gradient comes from torch's autograd for that op. It costs speed, never a model. Only random ops are refused: torch's
// generator knows neither seed nor replicas, and the gradient would draw again.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "poptorch/capture/recorder.h"

namespace poptorch {

// What runs the op that `stored` says (see HostWork::stored), in a process that has only that.
std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> restored_host_call(
    std::span<const std::byte> stored);

torch::jit::Stack emit_host_call(Recorder& recorder, const c10::OperatorHandle& op, const torch::jit::Stack& arguments);

}  // namespace poptorch
