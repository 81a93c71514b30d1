// Sums in half: makes a kernel that adds up long sums of half products piece by piece out of the factory of a float32
// kernel. Each piece is summed in float; what the pieces add up to is kept in half, in the result itself, and rounded
// after each. Only a piece of the operands is ever held in float, so the workspace is smaller than that of sums in
// float. Called where ops register kernels, before all others.
#pragma once

#include <optional>

#include "aspen/backends/api/kernel.h"

namespace aspen {

// The axis over which an op sums, in each of its first two inputs, and how many products one step along it stands for.
struct SummedAxes {
  std::size_t first = 0, second = 0;
  std::int64_t products = 1;
};

// Products that are summed in float before they are added to the half result.
inline constexpr std::int64_t kProductsPerPartial = 256;

// Nothing: the sums of this request cannot be cut.
using FindSummedAxes = std::optional<SummedAxes> (*)(const KernelRequest& request);

// Declines requests that do not ask for half partials, types other than half, and sums of a single piece. A third
// input is a bias (O) of a result (N, O, ...), where the sum begins.
KernelFactory half_partials(KernelFactory make_float, FindSummedAxes find_axes);

}  // namespace aspen
