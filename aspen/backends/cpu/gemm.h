// Products of small matrices in registers, for shapes where a library spends more time preparing than multiplying.
// Called by the dot kernels.
#pragma once

#include <cstdint>

namespace aspen {

// C (m x n, row-major, stride c_row) = A * B. Element (i, p) of A is a[i * a_row + p * a_column].
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 0;
  std::int64_t b_row = 0;
  std::int64_t c_row = 0;
};

// B is stored k x n: lanes run along n.
void gemm_rows(const GemmShape& shape, const float* a, const float* b, float* c);
// B is stored n x k and A m x k (a_column == 1): lanes run along k.
void gemm_columns(const GemmShape& shape, const float* a, const float* b, float* c);

}  // namespace aspen
