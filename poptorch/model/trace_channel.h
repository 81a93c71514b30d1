// The channel of the trace points (include/poptorch/profiling.h) that wrapped models leave.
#pragma once

#include <string_view>

namespace poptorch {

constexpr std::string_view trace_channel(bool training) {
  return training ? "poptorch.trainingModel" : "poptorch.inferenceModel";
}

}  // namespace poptorch
