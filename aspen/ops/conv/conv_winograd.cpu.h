// 3x3 convolutions with fewer products, after Winograd: a tile of 2x2 pixels of the result comes from 4x4 pixels by 16
// products instead of 36, F(2x2, 3x3) of Lavin and Gray, "Fast algorithms for convolutional neural networks" (2015).
// Pixels, weights and sums are transformed on lanes along the channels; what is left are 16 products of matrices.
// Called by the conv kernels.
#pragma once

#include <memory>

#include "aspen/backends/api/kernel.h"
#include "aspen/ops/conv/conv_lanes.cpu.h"
#include "aspen/ops/conv/conv_types.cpu.h"

namespace aspen {

// shape: kernels of 3x3 pixels, no stride, no dilation, padding of at most 2.
std::unique_ptr<Kernel> make_winograd_conv(ConvPass pass, const ConvShape& shape, const ConvFinish& finish);

}  // namespace aspen
