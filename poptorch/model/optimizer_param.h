// ipu_param of an optimiser's state: the numbers that are sent to the device, one for each parameter and attribute that
// may change. The attributes of a parameter become entries "learningRate___specific___fc.weight", and entries become
// attributes.
#pragma once

#include <map>
#include <string>

#include "poptorch/model/lowered_optimizer.h"

namespace poptorch {

using NumbersOfParameters = std::map<std::string, optim::Numbers>;

inline constexpr const char* kLossScalingEntry = "lossScaling_FLOAT";

// loss_scaling: that of `lowered`, unless another one was loaded since.
optim::Tensors param_entries(const LoweredOptimizer& lowered, const NumbersOfParameters& values, double loss_scaling);

// The same with what is constant: all numbers of the optimiser by the names of their tensors.
optim::Tensors scalar_entries(const LoweredOptimizer& lowered, const NumbersOfParameters& values, double loss_scaling);

// The attributes of the parameters that give the loaded entries; where there is none they stay as in `values`. lowered:
// the optimiser as it was loaded. Where its groups give the very entries, its numbers are taken: they have more digits.
NumbersOfParameters read_param(const LoweredOptimizer& lowered, const optim::Tensors& loaded,
                               const NumbersOfParameters& values, double loss_scaling);

}  // namespace poptorch
