// The loop that brings 64-bit integers to 32 bits. Called by narrow.cpp for every such input of a call.
#pragma once

#include <cstdint>

namespace poptorch {

// y[i] = x[i] for n of them; whether all fit. Where one does not, y holds its low bits.
bool narrow_integers(const std::int64_t* x, std::int64_t n, std::int32_t* y);

}  // namespace poptorch
