// Convolution and its gradients by oneDNN: any number of spatial axes, groups, strides. Called by the conv kernels.
#pragma once

#include <memory>

#include "aspen/backends/api/kernel.h"
#include "aspen/ops/conv/conv.h"

namespace aspen {

enum class ConvPass { kForward, kInputGrad, kWeightGrad };

// x, w and y are the operands of the forward convolution, whichever pass is asked for.
struct ConvTypes {
  TensorType x, w, y;
  bool bias = false;  // forward only
};

std::unique_ptr<Kernel> make_onednn_conv(ConvPass pass, const ConvAttrs& attrs, const ConvTypes& types);

}  // namespace aspen
