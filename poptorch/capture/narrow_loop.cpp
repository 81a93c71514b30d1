#include "poptorch/capture/narrow_loop.h"

namespace poptorch {

// A number fits if its high half repeats the sign of its low half. Halves, not shifts of 64 bits: those the compiler
// turns into vectors on any x86.
bool narrow_integers(const std::int64_t* x, std::int64_t n, std::int32_t* y) {
  std::uint32_t lost = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto bits = static_cast<std::uint64_t>(x[i]);
    const auto low = static_cast<std::int32_t>(bits);
    lost |= static_cast<std::uint32_t>(bits >> 32) ^ static_cast<std::uint32_t>(low >> 31);
    y[i] = low;
  }
  return lost == 0;
}

}  // namespace poptorch
