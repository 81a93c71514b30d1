// How much memory anybody in this binary has asked for in one piece, with `new`.
#pragma once

#include <cstddef>

namespace aspen::testing {

void forget_largest_allocation();
std::size_t largest_allocation();  // bytes

}  // namespace aspen::testing
