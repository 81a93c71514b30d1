// What the kernels of conv are made for: one of its three passes and the types of its operands.
#pragma once

#include <limits>
#include <optional>

#include "aspen/backends/api/kernel.h"
#include "aspen/backends/cpu/epilogue.h"
#include "aspen/base/tensor_type.h"
#include "aspen/ops/conv/conv.h"

namespace aspen {

enum class ConvPass { kForward, kInputGrad, kWeightGrad };

// x, w and y are the operands of the forward convolution, whichever pass is asked for.
struct ConvTypes {
  TensorType x, w, y;
  bool bias = false;  // forward only
};

// What conv_affine does to the result of a convolution, in terms of its inputs.
class ConvFinish {
 public:
  ConvFinish() = default;  // nothing
  explicit ConvFinish(const ConvAffineAttrs& attrs)
      : finishes_(true), low_(static_cast<float>(attrs.low)), high_(static_cast<float>(attrs.high)) {}

  explicit operator bool() const { return finishes_; }

  std::optional<Epilogue> epilogue(const KernelArgs& args) const {
    if (!finishes_) return std::nullopt;
    auto input = [&](std::size_t i) { return static_cast<const float*>(args.inputs[i]); };
    return Epilogue{input(3), input(4), input(5), low_, high_};
  }

 private:
  bool finishes_ = false;
  float low_ = 0, high_ = 0;
};

}  // namespace aspen
