#include "aspen/ops/binary/binary.h"

#include <cmath>
#include <limits>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/api/strided_rows.h"
#include "aspen/backends/reference/elementwise.h"

namespace aspen {
namespace {

template <class F>
BinaryFunctions floating(F f) {
  return for_floating<BinaryFunctions>(f);
}
template <class F>
BinaryFunctions integers(F f) {
  return for_integers<BinaryFunctions>(f);
}
template <class F>
BinaryFunctions all(F f) {
  return for_all<BinaryFunctions>(f);
}

template <class F>
BinaryFunctions both(F on_floats, std::int32_t (*on_integers)(std::int32_t, std::int32_t)) {
  BinaryFunctions functions = floating(on_floats);
  functions.i32 = on_integers;
  return functions;
}

// Integers wrap on overflow: computed without a sign, where that is defined.
template <std::uint32_t (*f)(std::uint32_t, std::uint32_t)>
std::int32_t wrapping(std::int32_t x, std::int32_t y) {
  return static_cast<std::int32_t>(f(static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y)));
}
std::uint32_t unsigned_add(std::uint32_t x, std::uint32_t y) { return x + y; }
std::uint32_t unsigned_sub(std::uint32_t x, std::uint32_t y) { return x - y; }
std::uint32_t unsigned_mul(std::uint32_t x, std::uint32_t y) { return x * y; }

// Division of integers never traps: by 0 the quotient is 0 (so the remainder is x), INT_MIN / -1 wraps.
std::int32_t quotient(std::int32_t x, std::int32_t y) {
  if (y == 0) return 0;
  return static_cast<std::int32_t>(static_cast<std::int64_t>(x) / y);
}
std::int32_t remainder(std::int32_t x, std::int32_t y) {
  return y == 0 ? x : static_cast<std::int32_t>(static_cast<std::int64_t>(x) % y);
}
bool rounds_up(std::int32_t rest, std::int32_t y) { return rest != 0 && y != 0 && (rest < 0) != (y < 0); }
std::int32_t floor_quotient(std::int32_t x, std::int32_t y) {
  return quotient(x, y) - (rounds_up(remainder(x, y), y) ? 1 : 0);
}
std::int32_t floor_remainder(std::int32_t x, std::int32_t y) {
  std::int32_t rest = remainder(x, y);
  return rounds_up(rest, y) ? rest + y : rest;
}

// The remainder is exact, so the quotient rounds correctly even where x / y would round across an integer.
template <class T>
T floor_quotient(T x, T y) {
  if (y == 0) return x / y;
  T rest = std::fmod(x, y);
  T result = (x - rest) / y;
  if (rest != 0 && (y < 0) != (rest < 0)) result -= 1;
  if (result == 0) return std::copysign(T(0), x / y);
  T down = std::floor(result);
  return result - down > T(0.5) ? down + 1 : down;
}
template <class T>
T floor_remainder(T x, T y) {
  T rest = std::fmod(x, y);
  return rest != 0 && (y < 0) != (rest < 0) ? rest + y : rest;
}

std::int32_t integer_power(std::int32_t base, std::int32_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    return 0;
  }
  std::uint32_t result = 1, square = static_cast<std::uint32_t>(base);
  for (; exponent > 0; exponent /= 2, square *= square) {
    if (exponent % 2 == 1) result *= square;
  }
  return static_cast<std::int32_t>(result);
}

std::int32_t shift_left(std::int32_t x, std::int32_t y) {
  return y < 0 || y > 31 ? 0 : static_cast<std::int32_t>(static_cast<std::uint32_t>(x) << y);
}
std::int32_t shift_right(std::int32_t x, std::int32_t y) { return x >> (y < 0 || y > 31 ? 31 : y); }

template <class T>
std::unique_ptr<Kernel> huber(const KernelRequest& request) {
  using A = Accumulator<T>;
  auto [delta, slope] = request.attrs.as<HuberAttrs>();
  auto rows =
      broadcast_rows<2>(request.outputs[0].shape, {&request.inputs[0].type.shape, &request.inputs[1].type.shape});
  return make_kernel([rows, delta = A(delta), slope = A(slope)](const KernelArgs& args) {
    rows.for_each_row([&](std::int64_t first, const auto& offsets) {
      const T* x = static_cast<const T*>(args.inputs[0]) + offsets[0];
      const T* y = static_cast<const T*>(args.inputs[1]) + offsets[1];
      T* z = static_cast<T*>(args.outputs[0]) + first;
      auto [dx, dy] = rows.strides();
      for (std::int64_t i = 0; i < rows.row_size(); ++i) {
        A size = std::abs(static_cast<A>(x[i * dx]) - static_cast<A>(y[i * dy]));
        z[i] = static_cast<T>(size <= delta ? slope / (2 * delta) * size * size : slope * (size - delta / 2));
      }
    });
  });
}

}  // namespace

void register_binary_ref(KernelRegistry& kernels) {
  add_binary(kernels, "add", both([]<class T>(T x, T y) -> T { return x + y; }, wrapping<unsigned_add>));
  add_binary(kernels, "sub", both([]<class T>(T x, T y) -> T { return x - y; }, wrapping<unsigned_sub>));
  add_binary(kernels, "mul", both([]<class T>(T x, T y) -> T { return x * y; }, wrapping<unsigned_mul>));
  add_binary(kernels, "div", floating([]<class T>(T x, T y) -> T { return x / y; }));
  add_binary(kernels, "pow", both([]<class T>(T x, T y) -> T { return std::pow(x, y); }, integer_power));
  // x != x: NaN wins.
  add_binary(kernels, "max", all([]<class T>(T x, T y) -> T { return x > y || x != x ? x : y; }));
  add_binary(kernels, "min", all([]<class T>(T x, T y) -> T { return x < y || x != x ? x : y; }));
  add_binary(kernels, "prelu", floating([]<class T>(T x, T y) -> T { return x > 0 ? x : x * y; }));
  add_binary(kernels, "squared_difference", floating([]<class T>(T x, T y) -> T { return (x - y) * (x - y); }));
  kernels.add("huber", KernelFactory([](const KernelRequest& request, std::string&) {
                return dispatch_floating(request.outputs[0].dtype,
                                         [&](auto tag) { return huber<typename decltype(tag)::type>(request); });
              }));
  add_binary(kernels, "atan2", floating([]<class T>(T x, T y) -> T { return std::atan2(x, y); }));
  add_binary(kernels, "rem_floor", both([]<class T>(T x, T y) -> T { return floor_remainder(x, y); }, floor_remainder));
  add_binary(kernels, "rem_trunc", both([]<class T>(T x, T y) -> T { return std::fmod(x, y); }, remainder));
  add_binary(kernels, "div_floor", both([]<class T>(T x, T y) -> T { return floor_quotient(x, y); }, floor_quotient));
  add_binary(kernels, "div_trunc", both([]<class T>(T x, T y) -> T { return std::trunc(x / y); }, quotient));
  add_binary(kernels, "bitand", integers([](std::int32_t x, std::int32_t y) { return x & y; }));
  add_binary(kernels, "bitor", integers([](std::int32_t x, std::int32_t y) { return x | y; }));
  add_binary(kernels, "bitxor", integers([](std::int32_t x, std::int32_t y) { return x ^ y; }));
  add_binary(kernels, "shl", integers(shift_left));
  add_binary(kernels, "shr", integers(shift_right));
  add_binary(kernels, "logical_and", all([]<class T>(T x, T y) -> T { return T(x != 0 && y != 0); }));
  add_binary(kernels, "logical_or", all([]<class T>(T x, T y) -> T { return T(x != 0 || y != 0); }));
  add_binary(kernels, "logical_xor", all([]<class T>(T x, T y) -> T { return T((x != 0) != (y != 0)); }));
}

}  // namespace aspen
