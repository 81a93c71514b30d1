#include "aspen/backends/cpu/gemm.h"

#define ASPEN_ISA_FILE "aspen/backends/cpu/gemm.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {

void gemm_rows(const GemmShape& shape, const float* a, const float* b, float* c, const GemmEnds& ends) {
  ASPEN_BEST(gemm_rows)(shape, a, b, c, ends);
}

std::int64_t gemm_panel_width() { return ASPEN_BEST(gemm_panel_width)(); }

void turn_into_panels(const GemmShape& shape, const float* b, float* panels) {
  ASPEN_BEST(turn_into_panels)(shape, b, panels);
}

void turn_into_rows(const GemmShape& shape, const float* a, float* rows) { ASPEN_BEST(turn_into_rows)(shape, a, rows); }

void gemm_columns(const GemmShape& shape, const float* a, const float* b, float* c, const GemmBatch& batch) {
  ASPEN_BEST(gemm_columns)(shape, a, b, c, batch);
}

}  // namespace aspen
