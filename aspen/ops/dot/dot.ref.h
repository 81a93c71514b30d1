// The reference of dot, for ops that are a product and what follows it.
#pragma once

#include "aspen/backends/api/kernel.h"

namespace aspen {

void multiply_matrices(const KernelCall& call);
std::size_t multiply_matrices_workspace(const KernelRequest& request);

}  // namespace aspen
