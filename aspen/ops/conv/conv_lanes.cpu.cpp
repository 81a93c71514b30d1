#include "aspen/ops/conv/conv_lanes.cpu.h"

#define ASPEN_HALF_VECTORS
#define ASPEN_ISA_FILE "aspen/ops/conv/conv_lanes.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

// The images that whole vectors take, and the rest, which half a vector is enough for.
struct Split {
  ConvShape whole, half;

  explicit Split(const ConvShape& shape) : whole(shape), half(shape) {
    const std::int64_t rest = shape.images % conv_lanes();
    half.images = conv_unit() < conv_lanes() && rest <= conv_unit() ? rest : 0;
    whole.images -= half.images;
  }
  std::int64_t x() const {
    return whole.images * whole.channels * whole.height * whole.width;
  }  // floats before the rest
  std::int64_t y() const { return whole.images * whole.outputs * whole.out_height * whole.out_width; }
};

}  // namespace

#if ASPEN_X86_CLONES
#define ASPEN_HALF(function) isa_avx512_half::function
#else
#define ASPEN_HALF(function) isa_baseline::function  // never called
#endif

std::int64_t conv_lanes() { return ASPEN_BEST(lanes)(); }

std::int64_t conv_unit() { return ASPEN_BEST(unit)(); }

std::size_t conv_lanes_workspace(ConvPass pass, const ConvShape& shape, std::int64_t rows) {
  auto floats = [&](auto of_conv, auto of_input_grad) {
    return (pass == ConvPass::kInputGrad ? of_input_grad : of_conv)(shape, rows) * sizeof(float);
  };
  if (Split(shape).whole.images == 0) {
    return floats(ASPEN_HALF(conv_workspace_floats), ASPEN_HALF(input_grad_workspace_floats));
  }
  return floats(ASPEN_BEST(conv_workspace_floats), ASPEN_BEST(input_grad_workspace_floats));
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
  const Split s(shape);
  if (s.whole.images > 0) ASPEN_BEST(conv_forward)(s.whole, rows, x, packed, y, workspace);
  if (s.half.images > 0) ASPEN_HALF(conv_forward)(s.half, rows, x + s.x(), packed, y + s.y(), workspace);
}

void conv_lanes_input_grad(const ConvShape& shape, ConvRows rows, const float* g, const float* packed, float* dx,
                           float* workspace) {
  const Split s(shape);
  if (s.whole.images > 0) ASPEN_BEST(conv_input_grad)(s.whole, rows, g, packed, dx, workspace);
  if (s.half.images > 0) ASPEN_HALF(conv_input_grad)(s.half, rows, g + s.y(), packed, dx + s.x(), workspace);
}

void conv_lanes_weight_grad(const ConvShape& shape, ConvRows rows, const float* x, const float* g, const ConvSums& dw,
                            float* workspace) {
  const Split s(shape);
  const bool has_whole = s.whole.images > 0;
  if (has_whole) ASPEN_BEST(conv_weight_grad)(s.whole, rows, x, g, dw, false, workspace);
  if (s.half.images == 0) return;
  ASPEN_HALF(conv_weight_grad)(s.half, rows, x + s.x(), g + s.y(), dw, has_whole, workspace);
}

}  // namespace aspen
