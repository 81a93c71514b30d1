// The kernel of an instruction: made when a program is built, and again when one is read from a file.
#pragma once

#include <memory>

#include "aspen/backends/api/kernel.h"

namespace aspen {

std::unique_ptr<Kernel> make_kernel(const KernelRequest& request, const Backend& backend);

}  // namespace aspen
