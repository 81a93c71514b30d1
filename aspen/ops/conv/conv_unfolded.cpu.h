// Convolutions and their gradients as one product of matrices, where weights are many and pixels few: the weights, or
// their gradient, lie as they are and are read or written once. With O outputs, P pixels of all images of y and K =
// channels * taps, what the kernel sees at each pixel is unfolded:
//
//   forward      y (O, P) = w (O, K) * seen (K, P)
//   input grad   seen (P, K) = g (P, O) * w (O, K), each element then added to the pixel it was seen at
//   weight grad  dw (O, K) = g (O, P) * seen (P, K)
//
// Called by the conv kernels.
#pragma once

#include <memory>

#include "aspen/backends/api/kernel.h"
#include "aspen/ops/conv/conv_types.cpu.h"

namespace aspen {

// One group, any number of spatial axes.
std::unique_ptr<Kernel> make_unfolded_conv(ConvPass pass, const ConvAttrs& attrs, const ConvTypes& types);

}  // namespace aspen
