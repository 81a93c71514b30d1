// Text of a tensor for the print op: nested rows, one per line, indented by one space per depth.
//   title: (
//    (0.100, 0.200)
//    (0.300, 0.400)
//   )
#pragma once

#include <string>

#include "aspen/base/tensor_type.h"
#include "aspen/ops/marker/marker.h"

namespace aspen {

// Without the title.
std::string format_tensor(const TensorType& type, const void* data, const PrintAttrs& attrs);

}  // namespace aspen
