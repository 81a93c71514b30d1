// How operators of the user's own (include/poptorch/custom_op.h) get into the graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "poptorch/capture/recorder.h"
#include "poptorch/custom_op.h"

namespace poptorch {

// `title` names the call in errors.
std::vector<at::Tensor> record_custom_op(Recorder& recorder, const std::shared_ptr<const CustomOp>& op,
                                         const std::string& title, const std::vector<at::Tensor>& inputs,
                                         const std::vector<at::Tensor>& examples, const CustomOpAttributes& attributes);

}  // namespace poptorch
