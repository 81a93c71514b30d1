// Conversion of one element between types, with every case defined (and equal to what PyTorch does on x86):
// float to integer truncates, goes through int32 and is cut to size; what int32 cannot hold (NaN too) becomes
// INT32_MIN first. Anything to bool asks != 0. Half and bfloat16 go through float.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "aspen/base/dtype.h"

namespace aspen {

template <class F>
std::int32_t truncate_to_int(F x) {
  constexpr F kLimit = F(2147483648.0);
  if constexpr (sizeof(F) == 4) {
    return x >= -kLimit && x < kLimit ? static_cast<std::int32_t>(x) : std::numeric_limits<std::int32_t>::min();
  } else {
    return x > -kLimit - 1 && x < kLimit ? static_cast<std::int32_t>(x) : std::numeric_limits<std::int32_t>::min();
  }
}

template <class To, class From>
To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>) {
    return convert<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return BFloat16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return static_cast<To>(truncate_to_int(x));
  } else if constexpr (std::is_same_v<To, Half> && std::is_integral_v<From>) {
    return static_cast<Half>(static_cast<float>(x));
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace aspen
