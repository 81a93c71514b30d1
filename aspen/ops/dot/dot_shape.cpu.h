// What the kernels of dot are made for.
#pragma once

#include <cstdint>

#include "aspen/backends/api/kernel.h"
#include "aspen/ops/dot/dot.h"

namespace aspen {

// (batch, m, k) x (batch, k, n), each operand possibly stored transposed.
struct DotShape {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  DType type = DType::kF32, result = DType::kF32;

  std::int64_t products() const { return batch * m * n * k; }
};

inline DotShape shape_of(const KernelRequest& request) {
  const Shape& a = request.inputs[0].type.shape;
  const Shape& c = request.outputs[0].shape;
  const auto& attrs = request.attrs.as<DotAttrs>();
  DotShape s;
  std::size_t rank = c.size();
  for (std::size_t i = 0; i + 2 < rank; ++i) s.batch *= c[i];
  s.m = c[rank - 2];
  s.n = c[rank - 1];
  s.k = attrs.transpose_a ? a[rank - 2] : a[rank - 1];
  s.transpose_a = attrs.transpose_a;
  s.transpose_b = attrs.transpose_b;
  s.type = request.inputs[0].type.dtype;
  s.result = request.outputs[0].dtype;
  return s;
}

}  // namespace aspen
