// Element types of tensors. Every layer speaks of types through this enum; the C++ type behind one
// is found with `dispatch`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace aspen {

using Half = _Float16;

enum class DType : std::uint8_t {
  kF32,
  kF16,
  kF64,  // reference backend only: finite-difference checks need the digits
  kI32,
  kI16,
  kI8,
  kU8,
  kBool,
};

inline constexpr int kNumDTypes = 8;

std::size_t size_of(DType type);
std::string_view name_of(DType type);          // "f32", "bool", ...
DType dtype_from_name(std::string_view name);  // throws UserError listing the known names
constexpr bool is_floating(DType type) { return type <= DType::kF64; }
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

// Calls f(TypeTag<T>{}) with the C++ type of `type`.
template <class F>
decltype(auto) dispatch(DType type, F&& f) {
  switch (type) {
    case DType::kF32: return f(TypeTag<float>{});
    case DType::kF16: return f(TypeTag<Half>{});
    case DType::kF64: return f(TypeTag<double>{});
    case DType::kI32: return f(TypeTag<std::int32_t>{});
    case DType::kI16: return f(TypeTag<std::int16_t>{});
    case DType::kI8: return f(TypeTag<std::int8_t>{});
    case DType::kU8: return f(TypeTag<std::uint8_t>{});
    case DType::kBool: break;
  }
  return f(TypeTag<bool>{});
}

[[noreturn]] void fail_not_floating(DType type);

// As dispatch, for the floating types only; anything else is an InternalError (shape rules check first).
template <class F>
decltype(auto) dispatch_floating(DType type, F&& f) {
  switch (type) {
    case DType::kF32: return f(TypeTag<float>{});
    case DType::kF16: return f(TypeTag<Half>{});
    case DType::kF64: return f(TypeTag<double>{});
    default: fail_not_floating(type);
  }
}

// The type sums are kept in: half adds up in float, small integers in int.
template <class T>
struct AccumulatorOf {
  using type = T;
};
template <>
struct AccumulatorOf<Half> {
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
