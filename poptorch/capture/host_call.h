// Host calls: an op without a lowering becomes a node of the graph that runs the ATen op itself on the CPU, and whose
// gradient comes from torch's autograd for that op. It costs speed, never a model. Only random ops are refused: torch's
// generator knows neither seed nor replicas, and the gradient would draw again.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <memory>
#include <string>

#include "poptorch/capture/recorder.h"

namespace poptorch {

torch::jit::Stack emit_host_call(Recorder& recorder, const c10::OperatorHandle& op, const torch::jit::Stack& arguments);

// Ops and shape functions may be written in the language of the model. What its binding must do about that:
struct ForeignLanguage {
  // Keeps the language's record of the calling thread, and with it an error, alive as long as the result lives.
  std::function<std::shared_ptr<void>()> keep_thread;
  // The text of the error a call has left behind, "" for none; the error is gone then.
  std::function<std::string()> take_error;
};
void set_foreign_language(ForeignLanguage language);

}  // namespace poptorch
