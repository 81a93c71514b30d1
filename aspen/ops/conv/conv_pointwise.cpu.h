// Convolution with a kernel of one pixel as products of matrices, on images as they lie: with O outputs, C channels and
// P pixels, every image is y (O, P) = w (O, C) * x (C, P). Called by the conv kernels.
#pragma once

#include <memory>

#include "aspen/backends/api/kernel.h"
#include "aspen/ops/conv/conv_types.cpu.h"

namespace aspen {

// Whether the kernel is one pixel, without padding.
bool is_pointwise_conv(const ConvAttrs& attrs, const ConvTypes& types);
// Of such a convolution.
std::unique_ptr<Kernel> make_pointwise_conv(ConvPass pass, const ConvAttrs& attrs, const ConvTypes& types,
                                            const ConvFinish& finish);

}  // namespace aspen
