// The gradient of a convolution by its weights as one product of matrices, where weights are many and pixels few: with
// O outputs, P pixels of all images and K = channels * taps, dw (O, K) = g (O, P) * columns (P, K), each row of columns
// being what the kernel sees at one pixel. dw is written where it lies, once. Called by the conv kernels.
#pragma once

#include <memory>

#include "aspen/backends/api/kernel.h"
#include "aspen/ops/conv/conv_types.cpu.h"

namespace aspen {

// One group, any number of spatial axes.
std::unique_ptr<Kernel> make_unfolded_weight_grad(const ConvAttrs& attrs, const ConvTypes& types);

}  // namespace aspen
