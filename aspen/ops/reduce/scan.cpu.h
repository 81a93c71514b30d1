// Running sums and products on the CPU, for float32 and int32, and the gradient of the products.
#pragma once

#include "aspen/backends/api/kernel.h"

namespace aspen {

std::unique_ptr<Kernel> make_scan(const KernelRequest& request, std::string& why);

}  // namespace aspen
