// A kernel that moves the bytes of its one input to its one output: what remains of an `assign` or an output
// when the memory plan cannot let both share a buffer.
#pragma once

#include <memory>

#include "aspen/backends/api/kernel.h"

namespace aspen {

std::unique_ptr<Kernel> make_copy_kernel(std::size_t bytes);

}  // namespace aspen
