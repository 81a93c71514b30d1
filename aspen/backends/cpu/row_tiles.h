// Kernels that run another kernel on a few rows at a time: what it keeps in its workspace, such as half and bfloat16 as
// float32, then stays in the cache. For ops whose operands and results share their first axes and whose rows, all that
// follows, do not know of each other. Called where ops register kernels.
#pragma once

#include <functional>

#include "aspen/backends/api/kernel.h"

namespace aspen {

// How many first axes all operands and results share.
using SharedAxes = std::function<std::int64_t(const KernelRequest& request)>;

// Declines what `make` declines, and what is too small or has too few rows to gain by it.
KernelFactory by_row_tiles(KernelFactory make, SharedAxes shared_axes);

}  // namespace aspen
