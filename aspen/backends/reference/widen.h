// Reading an operand in the type its sums are kept in: half and small integers are converted once into workspace,
// wider types are read where they are. Used by kernels that visit an operand many times.
#pragma once

#include <type_traits>

#include "aspen/base/tensor_type.h"

namespace aspen {

// Workspace widened() takes for an operand of this type.
inline std::size_t widened_bytes(const TensorType& type) {
  return dispatch(type.dtype, [&](auto tag) -> std::size_t {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, Accumulator<T>>) return 0;
    return static_cast<std::size_t>(type.numel()) * sizeof(Accumulator<T>);
  });
}

// Moves `workspace` past what it used.
template <class T>
const Accumulator<T>* widened(const T* x, std::int64_t n, Accumulator<T>*& workspace) {
  if constexpr (std::is_same_v<T, Accumulator<T>>) {
    return x;
  } else {
    Accumulator<T>* wide = workspace;
    for (std::int64_t i = 0; i < n; ++i) wide[i] = static_cast<Accumulator<T>>(x[i]);
    workspace += n;
    return wide;
  }
}

}  // namespace aspen
