// Convolution and its gradients by oneDNN: any number of spatial axes, groups, strides. Called by the conv kernels.
// float32, or bfloat16 where the CPU multiplies it; the gradient by the weights is float32, so that it is rounded once.
#pragma once

#include <memory>

#include "aspen/backends/api/kernel.h"
#include "aspen/ops/conv/conv_types.cpu.h"

namespace aspen {

// oneDNN has several implementations and an order of its own among them; nullptr: it has no such one, or only plain
// loops.
std::unique_ptr<Kernel> make_onednn_conv(ConvPass pass, const ConvAttrs& attrs, const ConvTypes& types,
                                         const ConvFinish& finish, int implementation = 0);

}  // namespace aspen
