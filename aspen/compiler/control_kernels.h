// Kernels of the ops that own graphs (ops/control): they run the kernels of the ops in these. Made here and not by
// backends, as for them a body is compiled: ordered, its kernels made, its memory planned (body_program.h).
#pragma once

#include <memory>

#include "aspen/backends/api/kernel.h"

namespace aspen {

// nullptr: the op owns no graph.
std::unique_ptr<Kernel> make_control_kernel(const KernelRequest& request, const Backend& backend);

}  // namespace aspen
