// Half and bfloat16 through float (see backends/api/through_float.h), in vectors and on the threads of the device:
// makes a kernel for requests with these types in them out of the factory of a float32 kernel. Called where ops
// register kernels, after the float kernel itself, for ops whose reference does the same: sums in float, one rounding.
#pragma once

#include "aspen/backends/api/through_float.h"

namespace aspen {

// Takes half and bfloat16, rounds to the nearest.
std::shared_ptr<const FloatConversion> vector_conversion();

// Declines requests without half or bfloat16, and whatever `make_float` declines.
KernelFactory widened(KernelFactory make_float);
// The same for a `make_float` that reads half and bfloat16 itself and gives float32.
KernelFactory rounded(KernelFactory make_float);

// As a `make_float`: the reference kernel, for ops without a kernel of ours. Where halves are converted one by one in
// software, its float loops are several times as fast as those in half.
std::unique_ptr<Kernel> make_reference_kernel(const KernelRequest& request, std::string& why);

// Both: `make_float` for float32 and, widened, for half and bfloat16.
void add_with_half(KernelRegistry& kernels, std::string_view op, const KernelFactory& make_float);

}  // namespace aspen
