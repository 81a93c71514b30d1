#include "aspen/ops/conv/conv_lanes.cpu.h"

#define ASPEN_ISA_FILE "aspen/ops/conv/conv_lanes.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {

std::int64_t conv_lanes() { return ASPEN_BEST(lanes)(); }

std::size_t conv_lanes_workspace(const ConvShape& shape) {
  return ASPEN_BEST(conv_workspace_floats)(shape) * sizeof(float);
}

void conv_lanes_forward(const ConvShape& shape, const float* x, const float* w, const float* bias, float* y,
                        float* workspace) {
  ASPEN_BEST(conv_forward)(shape, x, w, bias, y, workspace);
}

void conv_lanes_input_grad(const ConvShape& shape, const float* g, const float* w, float* dx, float* workspace) {
  ASPEN_BEST(conv_input_grad)(shape, g, w, dx, workspace);
}

void conv_lanes_weight_grad(const ConvShape& shape, const float* x, const float* g, float* dw, float* workspace) {
  ASPEN_BEST(conv_weight_grad)(shape, x, g, dw, workspace);
}

}  // namespace aspen
