// Where torch's dispatcher meets the recorder: registration on the IPU dispatch key.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>

namespace poptorch {

// Makes the recorder the kernel of every op on the IPU key: of torch's own once, which takes some 12 milliseconds; of
// other libraries as they come. Every capture calls it; who has time before the first one does so earlier.
void register_with_dispatcher();

std::string full_name(const c10::OperatorHandle& op);  // "aten::softmax.int"

// The op that computes the same without writing: add.Tensor for add_.Tensor and for add.out.
std::optional<c10::OperatorHandle> functional_twin(const c10::OperatorHandle& op);

}  // namespace poptorch
