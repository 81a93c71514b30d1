// Products of matrices in registers, from where they lie, for shapes where a library spends more time preparing than
// multiplying. Called by the kernels of dot and conv.
#pragma once

#include <cstdint>

#include "aspen/backends/cpu/epilogue.h"

namespace aspen {

// C (m x n, row-major, stride c_row) = A * B. Element (i, p) of A is a[i * a_row + p * a_column].
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 0;
  std::int64_t b_row = 0;
  std::int64_t c_row = 0;
  std::int64_t b_panel = 0;  // floats between panels of gemm_panel_width() columns of B; 0: they lie side by side
};

// The sums of row i begin with start[i], or with 0, or with what lies in C; rows are the channels of what is done to
// them in the end.
struct GemmEnds {
  const float* start = nullptr;
  const Epilogue* epilogue = nullptr;
  bool adds = false;  // to C; for n of whole vectors
};

// B is stored k x n, or in panels that are: lanes run along n.
void gemm_rows(const GemmShape& shape, const float* a, const float* b, float* c, const GemmEnds& ends = {});

std::int64_t gemm_panel_width();

// Turns B, stored n x k, into panels of k rows, one behind the other, for gemm_rows with b_row = gemm_panel_width() and
// b_panel = k * gemm_panel_width().
void turn_into_panels(const GemmShape& shape, const float* b, float* panels);

// Turns the first m columns of A, stored with a_column floats between its k rows, into m rows of k, c_row floats apart.
void turn_into_rows(const GemmShape& shape, const float* a, float* rows);

// So many products of equal shape, added up: the operands of the next lie so many floats further.
struct GemmBatch {
  std::int64_t count = 1, a_step = 0, b_step = 0;
};

// B is stored n x k and A m x k (a_column == 1): lanes run along k.
void gemm_columns(const GemmShape& shape, const float* a, const float* b, float* c, const GemmBatch& batch = {});

}  // namespace aspen
