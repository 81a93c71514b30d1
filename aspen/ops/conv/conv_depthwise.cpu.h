// Depthwise convolution, one plane after the other, on images as they lie: a plane is copied between zeros into the
// workspace, and then every tap is a row of vectors at a fixed distance. Called by the conv kernels.
#pragma once

#include <memory>

#include "aspen/backends/api/kernel.h"
#include "aspen/ops/conv/conv_lanes.cpu.h"
#include "aspen/ops/conv/conv_types.cpu.h"

namespace aspen {

// shape: of all channels together, each of which is a group of its own with one output.
std::unique_ptr<Kernel> make_depthwise_conv(ConvPass pass, const ConvShape& shape, const ConvFinish& finish);

}  // namespace aspen
