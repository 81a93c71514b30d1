// How operators of the user's own (include/poptorch/custom_op.h) get into the graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "aspen/base/attrs.h"
#include "poptorch/capture/recorder.h"
#include "poptorch/custom_op.h"

namespace poptorch {

// A registered operator; an Error that begins with `title` if there is none, or more than one.
std::shared_ptr<const CustomOp> find_custom_op(const std::string& title, const std::string& name,
                                               const std::string& domain, std::int64_t version);
// The call of an operator that `stored` says (see CustomKernel::stored), in a process that has only that.
std::shared_ptr<aspen::HostFunction> restored_custom_op(const std::string& title, std::span<const std::byte> stored);

// `title` names the call in errors.
std::vector<at::Tensor> record_custom_op(Recorder& recorder, const std::shared_ptr<const CustomOp>& op,
                                         const std::string& title, const std::vector<at::Tensor>& inputs,
                                         const std::vector<at::Tensor>& examples, const CustomOpAttributes& attributes);

}  // namespace poptorch
