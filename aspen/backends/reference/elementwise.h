// Reference kernels of elementwise ops, from one scalar function per type of arithmetic. Half computes in float and
// rounds once; small integers and bool compute in int32 and are cut to size. An op with bool output stores
// "result != 0".
#pragma once

#include <algorithm>
#include <string_view>

#include "aspen/backends/api/kernel.h"

namespace aspen {

// A null entry: the op does not take such types.
struct UnaryFunctions {
  float (*f32)(float) = nullptr;
  double (*f64)(double) = nullptr;
  std::int32_t (*i32)(std::int32_t) = nullptr;
};

struct BinaryFunctions {
  float (*f32)(float, float) = nullptr;
  double (*f64)(double, double) = nullptr;
  std::int32_t (*i32)(std::int32_t, std::int32_t) = nullptr;
};

// From a generic lambda `[]<class T>(T x) -> T`.
template <class Functions, class F>
Functions for_floating(F f) {
  return {f, f, nullptr};
}
template <class Functions, class F>
Functions for_integers(F f) {
  return {nullptr, nullptr, f};
}
template <class Functions, class F>
Functions for_all(F f) {
  return {f, f, f};
}

// Make the kernel, or decline saying why in `why`. Binary operands broadcast.
std::unique_ptr<Kernel> make_unary(const KernelRequest& request, const UnaryFunctions& functions, std::string& why);
std::unique_ptr<Kernel> make_binary(const KernelRequest& request, const BinaryFunctions& functions, std::string& why);

void add_unary(KernelRegistry& kernels, std::string_view op, const UnaryFunctions& functions);
void add_binary(KernelRegistry& kernels, std::string_view op, const BinaryFunctions& functions);

// output 0 = input `i`, byte by byte.
template <std::size_t i>
void copy_kernel(const KernelCall& call) {
  const auto* from = call.in<std::byte>(i);
  auto* to = call.out<std::byte>(0);
  std::size_t bytes = call.in_type(i).bytes();
  if (from != to && bytes > 0) std::copy(from, from + bytes, to);
}

}  // namespace aspen
