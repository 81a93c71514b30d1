// Over which axes convolutions sum, for kernels that keep partial sums in half. Sums over the channels of a group are
// not cut.
#pragma once

#include "aspen/backends/reference/half_partials.h"
#include "aspen/ops/conv/conv.h"

namespace aspen {

inline std::int64_t plane_of(const TensorType& type) {
  std::int64_t elements = 1;
  for (std::size_t i = 2; i < type.shape.size(); ++i) elements *= type.shape[i];
  return elements;
}

// x (N, C, spatial...), w (O, C, kernel...): over C and the taps.
inline std::optional<SummedAxes> conv_axes(const KernelRequest& request) {
  if (request.attrs.as<ConvAttrs>().groups != 1) return std::nullopt;
  return SummedAxes{1, 1, plane_of(request.inputs[1].type)};
}

// g (N, O, spatial...), w (O, C, kernel...): over O and the taps.
inline std::optional<SummedAxes> conv_input_grad_axes(const KernelRequest& request) {
  if (request.attrs.as<ConvGradAttrs>().conv.groups != 1) return std::nullopt;
  return SummedAxes{1, 0, plane_of(request.inputs[1].type)};
}

// x (N, C, spatial...), g (N, O, spatial...): over N and the positions.
inline std::optional<SummedAxes> conv_weight_grad_axes(const KernelRequest& request) {
  return SummedAxes{0, 0, plane_of(request.inputs[1].type)};
}

}  // namespace aspen
