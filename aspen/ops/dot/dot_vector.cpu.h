// A matrix by a vector: every number of the matrix is read once and used once, so memory sets the pace, and what
// matters is to read it in long runs. Called by the kernels of dot.
#pragma once

#include <cstddef>
#include <memory>

#include "aspen/backends/api/kernel.h"

namespace aspen {

// A batch of products, each of a matrix with a vector of k numbers.
struct VectorDot {
  std::int64_t batch = 1, outputs = 0, k = 0;
  std::size_t matrix = 0, vector = 1;  // inputs of the kernel
  bool is_by_rows = true;              // the matrix is stored outputs x k, else k x outputs
};

std::unique_ptr<Kernel> make_vector_dot(const VectorDot& dot);

}  // namespace aspen
