// What the kernels of conv are made for: one of its three passes and the types of its operands.
#pragma once

#include "aspen/base/tensor_type.h"
#include "aspen/ops/conv/conv.h"

namespace aspen {

enum class ConvPass { kForward, kInputGrad, kWeightGrad };

// x, w and y are the operands of the forward convolution, whichever pass is asked for.
struct ConvTypes {
  TensorType x, w, y;
  bool bias = false;  // forward only
};

}  // namespace aspen
