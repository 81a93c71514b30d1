// Float32 runs on the reference, half too, through float.
#include "aspen/backends/cpu/widened.h"

namespace aspen {

void register_resize_cpu(KernelRegistry& kernels) {
  for (const char* op : {"resize", "resize_grad"}) kernels.add(op, widened(make_reference_kernel));
}

}  // namespace aspen
