// Convolutions of small images as one product of matrices, with channels of the result side by side: lanes of a vector
// that run along so few pixels would end before they have begun. Weights are turned into panels first, once for the
// life of a program where they stay as they are. Called by the conv kernels.
#pragma once

#include <memory>

#include "aspen/ops/conv/conv_lanes.cpu.h"
#include "aspen/ops/conv/conv_types.cpu.h"

namespace aspen {

// Whether outputs fill whole vectors, which this needs.
bool fills_panels(std::int64_t outputs);

// Forward, one group, one or two spatial axes.
std::unique_ptr<Kernel> make_panel_conv(const ConvShape& shape, const ConvFinish& finish);

}  // namespace aspen
