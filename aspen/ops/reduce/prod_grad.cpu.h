// The gradient of products over axes on the CPU, for float32.
#pragma once

#include "aspen/backends/api/kernel.h"

namespace aspen {

std::unique_ptr<Kernel> make_prod_grad(const KernelRequest& request, std::string& why);

}  // namespace aspen
