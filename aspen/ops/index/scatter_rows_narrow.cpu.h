// scatter_rows along the first axis in half and bfloat16: the gradient of an embedding. Only rows that an update
// meets become float32, and are rounded once. Called by the kernels of index.
#pragma once

#include "aspen/backends/api/kernel.h"

namespace aspen {

// make_float: scatter_rows of float32.
KernelFactory narrow_scatter_rows(KernelFactory make_float);

}  // namespace aspen
