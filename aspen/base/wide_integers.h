// Integers of 64 bits, as the host has them, on their way to the 32 bits of a graph: nothing may be lost in silence.
// Called by the op narrow for what a call gives, and by the front end for constants and variables.
#pragma once

#include <cstdint>
#include <string_view>

namespace aspen {

// For messages: "... among its integers, <this>."
inline constexpr const char* kIntegerRule =
    "which have 32 bits on the device: -2147483648 <= value <= 2147483647. Use smaller numbers, or floating-point "
    "tensors";

// y[i] = x[i] for n of them; whether all fit. Where one does not, y holds its low bits.
//
// A number fits if its high half repeats the sign of its low half. Halves, not shifts of 64 bits: those the compiler
// turns into vectors on any x86.
[[gnu::always_inline]] inline bool narrow_integers(const std::int64_t* x, std::int64_t n, std::int32_t* y) {
  std::uint32_t lost = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto bits = static_cast<std::uint64_t>(x[i]);
    const auto low = static_cast<std::int32_t>(bits);
    lost |= static_cast<std::uint32_t>(bits >> 32) ^ static_cast<std::uint32_t>(low >> 31);
    y[i] = low;
  }
  return lost == 0;
}

// UserError with the first of n integers that does not fit, and `whose` they are: input "x".
[[noreturn]] void fail_too_wide(const std::int64_t* x, std::int64_t n, std::string_view whose);

}  // namespace aspen
