#include "aspen/ops/softmax/softmax.h"

#include <cmath>
#include <limits>

#include "aspen/backends/api/kernel.h"

namespace aspen {
namespace {

// Calls row(base, stride, n) for every line of x along the axis.
template <class F>
void for_each_row(const Shape& shape, std::int64_t axis, F&& row) {
  if (shape.empty()) return row(std::int64_t{0}, std::int64_t{1}, std::int64_t{1});
  axis = normalize_axis(axis, shape, "softmax");
  std::int64_t inner = 1, outer = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (static_cast<std::int64_t>(i) < axis) outer *= shape[i];
    if (static_cast<std::int64_t>(i) > axis) inner *= shape[i];
  }
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) row(o * shape[axis] * inner + i, inner, shape[axis]);
  }
}

template <bool kLog>
void softmax(const KernelCall& call) {
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const T* x = call.in<T>(0);
    T* y = call.out<T>(0);
    for_each_row(call.in_type(0).shape, call.attrs<SoftmaxAttrs>().axis, [&](auto base, auto stride, auto n) {
      A top = -std::numeric_limits<A>::infinity(), sum = 0;
      for (std::int64_t k = 0; k < n; ++k) top = std::max(top, static_cast<A>(x[base + k * stride]));
      for (std::int64_t k = 0; k < n; ++k) sum += std::exp(static_cast<A>(x[base + k * stride]) - top);
      for (std::int64_t k = 0; k < n; ++k) {
        A shifted = static_cast<A>(x[base + k * stride]) - top;
        y[base + k * stride] = static_cast<T>(kLog ? shifted - std::log(sum) : std::exp(shifted) / sum);
      }
    });
  });
}

template <bool kLog>
void softmax_grad(const KernelCall& call) {
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const T* y = call.in<T>(0);
    const T* g = call.in<T>(1);
    T* dx = call.out<T>(0);
    for_each_row(call.in_type(0).shape, call.attrs<SoftmaxAttrs>().axis, [&](auto base, auto stride, auto n) {
      A sum = 0;
      for (std::int64_t k = 0; k < n; ++k) {
        A gk = static_cast<A>(g[base + k * stride]);
        sum += kLog ? gk : gk * static_cast<A>(y[base + k * stride]);
      }
      for (std::int64_t k = 0; k < n; ++k) {
        A yk = static_cast<A>(y[base + k * stride]), gk = static_cast<A>(g[base + k * stride]);
        dx[base + k * stride] = static_cast<T>(kLog ? gk - std::exp(yk) * sum : yk * (gk - sum));
      }
    });
  });
}

}  // namespace

void register_softmax_ref(KernelRegistry& kernels) {
  kernels.add("softmax", softmax<false>);
  kernels.add("log_softmax", softmax<true>);
  kernels.add("softmax_grad", softmax_grad<false>);
  kernels.add("log_softmax_grad", softmax_grad<true>);
}

}  // namespace aspen
