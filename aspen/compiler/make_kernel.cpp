#include "aspen/compiler/make_kernel.h"

#include "aspen/compiler/control_kernels.h"
#include "aspen/compiler/stochastic_rounding.h"

namespace aspen {

std::unique_ptr<Kernel> make_kernel(const KernelRequest& request, const Backend& backend) {
  if (auto kernel = make_control_kernel(request, backend)) return kernel;
  if (request.rounding.stream != 0) return make_randomly_rounded(request, backend);
  return backend.create_kernel(request);
}

}  // namespace aspen
