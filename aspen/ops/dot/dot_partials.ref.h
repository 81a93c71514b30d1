// Over which axes dot sums, for kernels that keep partial sums in half.
#pragma once

#include "aspen/backends/reference/half_partials.h"
#include "aspen/ops/dot/dot.h"

namespace aspen {

inline std::optional<SummedAxes> dot_axes(const KernelRequest& request) {
  const auto& attrs = request.attrs.as<DotAttrs>();
  std::size_t rank = request.inputs[0].type.shape.size();
  return SummedAxes{rank - (attrs.transpose_a ? 2 : 1), rank - (attrs.transpose_b ? 1 : 2)};
}

}  // namespace aspen
