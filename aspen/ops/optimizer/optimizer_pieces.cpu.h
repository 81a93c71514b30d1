// The numbers that sgd and adam compute with, and these updates for float32 weights whose gradient is made in pieces.
// Called by the kernels of the optimisers and by those that make gradients and updates together; all run the same
// loops.
#pragma once

#include <cstdint>

#include "aspen/backends/api/kernel.h"
#include "aspen/backends/cpu/gradient_pieces.h"
#include "aspen/ops/optimizer/optimizer.h"

namespace aspen {

struct SgdNumbers {
  float minus_lr = 0, decay = 0;
  float taken = 1, carried = 0;            // velocity = taken * gradient + carried * velocity
  float of_velocity = 1, of_gradient = 0;  // what the weight moves along
  bool has_velocity = false;               // not without momentum, nor with one of 0: the velocity rests
};

struct AdamNumbers {
  float kept = 1, decay = 0;  // of the weight, and of the weight into the gradient
  float beta1 = 0, taken1 = 0, beta2 = 0, taken2 = 0;
  float minus_step = 0, epsilon = 0;  // both times the correction of the root, by which the root is not divided
};

SgdNumbers numbers_of(const SgdAttrs& attrs, const float* settings, float steps_before);
AdamNumbers numbers_of(const AdamAttrs& attrs, const float* settings, float steps_before);

// The inputs of a kernel that belong to the update. States follow the step; the outputs are those of the update.
struct UpdatePorts {
  std::size_t w, settings, step;
  std::size_t state(std::size_t i) const { return step + 1 + i; }
};

// One update; pieces may come in any order and on any thread.
class PiecewiseSgd {
 public:
  PiecewiseSgd(const SgdAttrs& attrs, const KernelArgs& args, const UpdatePorts& ports, std::int64_t numel);
  void operator()(const GradientPiece& piece) const;

 private:
  SgdNumbers numbers_;
  const float *w_, *velocity_ = nullptr;
  float *new_w_, *new_velocity_ = nullptr;
};

class PiecewiseAdam {
 public:
  PiecewiseAdam(const AdamAttrs& attrs, const KernelArgs& args, const UpdatePorts& ports, std::int64_t numel);
  void operator()(const GradientPiece& piece) const;

 private:
  AdamNumbers numbers_;
  const float *w_, *first_, *second_;
  float *new_w_, *new_first_, *new_second_;
};

}  // namespace aspen
