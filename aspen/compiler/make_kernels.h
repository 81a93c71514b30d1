// The kernels of a whole program. Equal requests share one kernel: a network of many equal layers has few different
// ones. What remains is dealt out to the cpus, as making a kernel may mean to compile machine code (oneDNN). Called
// when a program is built, and when one is read from a file.
#pragma once

#include <exception>
#include <memory>
#include <vector>

#include "aspen/backends/api/kernel.h"

namespace aspen {

// One of the two.
struct KernelOrError {
  std::shared_ptr<const Kernel> kernel;
  std::exception_ptr error;
};

struct MadeKernels {
  std::vector<KernelOrError> of_request;  // in the order of the requests
  std::size_t num_made = 0;               // or tried
};

MadeKernels make_kernels(const std::vector<const KernelRequest*>& requests, const Backend& backend);

}  // namespace aspen
