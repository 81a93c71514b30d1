#include "aspen/ops/nll/nll.h"

#include <algorithm>

#include "aspen/backends/api/kernel.h"
#include "aspen/ops/nll/targets.h"

namespace aspen {

void register_cross_entropy_ref(KernelRegistry& kernels);  // in cross_entropy.ref.cpp

namespace {

// Calls f(position in target, position in x, class) for every target that counts.
template <class F>
void for_each_target(const KernelCall& call, const NllLayout& l, const std::int32_t* target, F&& f) {
  auto ignored = call.attrs<NllAttrs>().ignore_index;
  for (std::int64_t n = 0; n < l.batch; ++n) {
    for (std::int64_t i = 0; i < l.inner; ++i) {
      std::int64_t at = n * l.inner + i, t = target[at];
      if (t == ignored) continue;
      if (t < 0 || t >= l.classes) fail_target(call.request().op, l, at, t, ignored);
      f(at, (n * l.classes + t) * l.inner + i, t);
    }
  }
}

void nll(const KernelCall& call) {
  NllLayout l(call.in_type(0).shape);
  const auto& reduction = call.attrs<NllAttrs>().reduction;
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = call.in<T>(0);
    const T* weight = call.has(2) ? call.in<T>(2) : nullptr;
    T* loss = call.out<T>(0);
    double sum = 0, total = 0;
    std::fill(loss, loss + call.out_type(0).numel(), T{0});
    for_each_target(call, l, call.in<std::int32_t>(1), [&](auto at, auto place, auto t) {
      double w = weight != nullptr ? static_cast<double>(weight[t]) : 1.0;
      double value = -w * static_cast<double>(x[place]);
      total += w;
      sum += value;
      if (reduction == "none") loss[at] = static_cast<T>(value);
    });
    if (reduction == "sum") *loss = static_cast<T>(sum);
    if (reduction == "mean") *loss = static_cast<T>(total == 0 ? 0 : sum / total);
    *call.out<Accumulator<T>>(1) = static_cast<Accumulator<T>>(total);
  });
}

void nll_grad(const KernelCall& call) {
  NllLayout l(call.in_type(4).shape);
  const auto& reduction = call.attrs<NllAttrs>().reduction;
  dispatch_floating(call.in_type(4).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const T* weight = call.has(1) ? call.in<T>(1) : nullptr;
    const T* g = call.in<T>(3);
    T* dx = call.out<T>(0);
    A total = *call.in<A>(2);
    A scale = reduction == "mean" && total != 0 ? 1 / total : A{1};
    std::fill(dx, dx + call.out_type(0).numel(), T{0});
    for_each_target(call, l, call.in<std::int32_t>(0), [&](auto at, auto place, auto t) {
      A w = weight != nullptr ? static_cast<A>(weight[t]) : A{1};
      dx[place] = static_cast<T>(-w * static_cast<A>(g[reduction == "none" ? at : 0]) * scale);
    });
  });
}

}  // namespace

void register_nll_ref(KernelRegistry& kernels) {
  kernels.add("nll", nll);
  kernels.add("nll_grad", nll_grad);
  register_cross_entropy_ref(kernels);
}

}  // namespace aspen
