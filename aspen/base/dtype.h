// Element types of tensors. Every layer speaks of types through this enum; the C++ type behind one
// is found with `dispatch`.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace aspen {

using Half = _Float16;

// The upper half of a float: its range with 8 of its 24 digits. A type to store and to move, without arithmetic: ops in
// it compute in float (see backends/api/through_float.h).
struct BFloat16 {
  BFloat16() = default;
  // To the nearest, ties to even. A NaN stays one: the very one it was if it came from here.
  explicit BFloat16(float x) {
    const auto wide = std::bit_cast<std::uint32_t>(x);
    const bool is_nan = (wide & 0x7fffffffu) > 0x7f800000u;
    const std::uint32_t nan = wide | ((wide & 0x7f0000u) != 0 ? 0u : 0x400000u);
    bits = static_cast<std::uint16_t>((is_nan ? nan : wide + 0x7fffu + (wide >> 16 & 1u)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

  std::uint16_t bits = 0;
};

enum class DType : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,  // reference backend only: finite-difference checks need the digits
  kI32,
  kI16,
  kI8,
  kU8,
  kBool,
  kI64,  // as the host has integers: for inputs of a graph and what brings them to 32 bits (op narrow), no arithmetic
};

inline constexpr int kNumDTypes = 10;

std::size_t size_of(DType type);
std::string_view name_of(DType type);          // "f32", "bool", ...
DType dtype_from_name(std::string_view name);  // throws UserError listing the known names
constexpr bool is_floating(DType type) { return type <= DType::kF64; }
// Floats of 16 bits: what is summed or kept for long is kept in float32.
constexpr bool is_narrow_float(DType type) { return type == DType::kF16 || type == DType::kBF16; }
constexpr bool is_integer(DType type) { return type >= DType::kI32 && type <= DType::kU8; }

template <class T>
struct TypeTag {
  using type = T;
};

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::kF32;
}
template <>
constexpr DType dtype_of<Half>() {
  return DType::kF16;
}
template <>
constexpr DType dtype_of<BFloat16>() {
  return DType::kBF16;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::kF64;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::kI32;
}
template <>
constexpr DType dtype_of<std::int16_t>() {
  return DType::kI16;
}
template <>
constexpr DType dtype_of<std::int8_t>() {
  return DType::kI8;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
  return DType::kU8;
}
template <>
constexpr DType dtype_of<bool>() {
  return DType::kBool;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return DType::kI64;
}

[[noreturn]] void fail_not_arithmetic(DType type);

// Calls f(TypeTag<T>{}) with the C++ type of `type`, one that has arithmetic; bfloat16 and i64 are an InternalError.
template <class F>
decltype(auto) dispatch(DType type, F&& f) {
  switch (type) {
    case DType::kF32: return f(TypeTag<float>{});
    case DType::kF16: return f(TypeTag<Half>{});
    case DType::kBF16: fail_not_arithmetic(type);
    case DType::kF64: return f(TypeTag<double>{});
    case DType::kI32: return f(TypeTag<std::int32_t>{});
    case DType::kI16: return f(TypeTag<std::int16_t>{});
    case DType::kI8: return f(TypeTag<std::int8_t>{});
    case DType::kU8: return f(TypeTag<std::uint8_t>{});
    case DType::kI64: fail_not_arithmetic(type);
    case DType::kBool: break;
  }
  return f(TypeTag<bool>{});
}

// As dispatch, for code that only stores and converts elements: all types.
template <class F>
decltype(auto) dispatch_stored(DType type, F&& f) {
  if (type == DType::kBF16) return f(TypeTag<BFloat16>{});
  if (type == DType::kI64) return f(TypeTag<std::int64_t>{});
  return dispatch(type, std::forward<F>(f));
}

[[noreturn]] void fail_not_floating(DType type);

// As dispatch, for the floating types with arithmetic only; anything else is an InternalError (shape rules check
// first).
template <class F>
decltype(auto) dispatch_floating(DType type, F&& f) {
  switch (type) {
    case DType::kF32: return f(TypeTag<float>{});
    case DType::kF16: return f(TypeTag<Half>{});
    case DType::kF64: return f(TypeTag<double>{});
    default: fail_not_floating(type);
  }
}

// The type sums are kept in: half and bfloat16 add up in float, small integers in int.
template <class T>
struct AccumulatorOf {
  using type = T;
};
template <>
struct AccumulatorOf<Half> {
  using type = float;
};
template <>
struct AccumulatorOf<BFloat16> {
  using type = float;
};
template <>
struct AccumulatorOf<std::int16_t> {
  using type = std::int32_t;
};
template <>
struct AccumulatorOf<std::int8_t> {
  using type = std::int32_t;
};
template <>
struct AccumulatorOf<std::uint8_t> {
  using type = std::int32_t;
};
template <>
struct AccumulatorOf<bool> {
  using type = std::int32_t;
};
template <class T>
using Accumulator = typename AccumulatorOf<T>::type;

}  // namespace aspen
