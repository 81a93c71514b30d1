// Gradients of weights that are made a piece at a time, each handed on while it is in the cache: what the kernels of
// dot and scatter_rows offer to those that update weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "aspen/backends/api/kernel.h"

namespace aspen {

// Elements of a gradient that lie one behind the other.
struct GradientPiece {
  std::int64_t begin, count;
  const float* gradient;
};

class GradientPieces {
 public:
  using Take = std::function<void(const GradientPiece&)>;

  virtual ~GradientPieces() = default;
  virtual std::size_t workspace_bytes() const = 0;
  virtual void reserve(std::size_t num_threads) const { static_cast<void>(num_threads); }
  // args: the operands of the gradient, and the workspace. Hands each element to `take` once, in any order and on the
  // threads of the device; nothing is handed on before all operands are known to be valid.
  virtual void run(const KernelArgs& args, const Take& take) const = 0;
};

}  // namespace aspen
