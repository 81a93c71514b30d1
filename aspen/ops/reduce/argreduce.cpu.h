// Positions of extremes on the CPU, for float32 and int32.
#pragma once

#include "aspen/backends/api/kernel.h"

namespace aspen {

std::unique_ptr<Kernel> make_argreduce(const KernelRequest& request, std::string& why);

}  // namespace aspen
