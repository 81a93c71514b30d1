// Complex tensors in a graph, which has real numbers only: pairs along a last axis of their own. Host calls read and
// write them; inside a model they live between torch.view_as_complex or a Fourier transform and torch.view_as_real.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/view_as_real.h>

namespace poptorch {

// The pairs of a complex tensor; any other tensor as it is.
inline at::Tensor as_pairs(const at::Tensor& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor;
}

}  // namespace poptorch
