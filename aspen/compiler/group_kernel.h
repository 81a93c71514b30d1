// The kernel of a group (ops/group): runs the kernels of the ops in its body over one tile of the elements after the
// other. Made here and not by backends, for the reasons of control_kernels.h.
#pragma once

#include <memory>

#include "aspen/backends/api/kernel.h"

namespace aspen {

std::unique_ptr<Kernel> make_group_kernel(const KernelRequest& request, const Backend& backend);

}  // namespace aspen
