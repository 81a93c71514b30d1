#include "aspen/ops/conv/conv_lanes.cpu.h"

#define ASPEN_ISA_FILE "aspen/ops/conv/conv_lanes.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {

std::int64_t conv_lanes() { return ASPEN_BEST(lanes)(); }

std::size_t conv_lanes_workspace(const ConvShape& shape, std::int64_t rows) {
  return ASPEN_BEST(conv_workspace_floats)(shape, rows) * sizeof(float);
}

std::size_t conv_lanes_packed(const ConvShape& shape) { return ASPEN_BEST(conv_packed_floats)(shape) * sizeof(float); }

void conv_lanes_pack_forward(const ConvShape& shape, const float* w, const float* bias, float* packed) {
  ASPEN_BEST(pack_weights)(shape, w, bias, packed);
}

void conv_lanes_pack_input_grad(const ConvShape& shape, const float* w, float* packed) {
  ASPEN_BEST(pack_grad_weights)(shape, w, packed);
}

void conv_lanes_forward(const ConvShape& shape, ConvRows rows, const float* x, const float* packed, float* y,
                        float* workspace) {
  ASPEN_BEST(conv_forward)(shape, rows, x, packed, y, workspace);
}

void conv_lanes_input_grad(const ConvShape& shape, ConvRows rows, const float* g, const float* packed, float* dx,
                           float* workspace) {
  ASPEN_BEST(conv_input_grad)(shape, rows, g, packed, dx, workspace);
}

void conv_lanes_weight_grad(const ConvShape& shape, ConvRows rows, const float* x, const float* g, float* dw,
                            float* workspace) {
  ASPEN_BEST(conv_weight_grad)(shape, rows, x, g, dw, workspace);
}

}  // namespace aspen
