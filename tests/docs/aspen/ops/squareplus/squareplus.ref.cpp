#include "aspen/ops/squareplus/squareplus.h"

#include <cmath>

#include "aspen/backends/api/kernel.h"

namespace aspen {
namespace {

void squareplus(const KernelCall& call) {
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;  // half computes in float and rounds once
    const auto width = static_cast<A>(call.attrs<SquareplusAttrs>().width);
    const T* x = call.in<T>(0);
    T* y = call.out<T>(0);
    for (std::int64_t i = 0; i < call.in_type(0).numel(); ++i) {
      A value = static_cast<A>(x[i]);
      y[i] = static_cast<T>((value + std::sqrt(value * value + width)) / 2);
    }
  });
}

void squareplus_grad(const KernelCall& call) {
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const auto width = static_cast<A>(call.attrs<SquareplusAttrs>().width);
    const T *x = call.in<T>(0), *g = call.in<T>(1);
    T* dx = call.out<T>(0);
    for (std::int64_t i = 0; i < call.in_type(0).numel(); ++i) {
      A value = static_cast<A>(x[i]), slope = (1 + value / std::sqrt(value * value + width)) / 2;
      dx[i] = static_cast<T>(static_cast<A>(g[i]) * slope);
    }
  });
}

}  // namespace

void register_squareplus_ref(KernelRegistry& kernels) {
  kernels.add("squareplus", squareplus);
  kernels.add("squareplus_grad", squareplus_grad);
}

}  // namespace aspen
