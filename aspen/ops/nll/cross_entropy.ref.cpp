#include <algorithm>
#include <cmath>
#include <limits>

#include "aspen/backends/api/kernel.h"
#include "aspen/ops/nll/targets.h"

namespace aspen {
namespace {

// A target that counts: where its loss is, where its first class is in x, and its class.
struct Target {
  std::int64_t at, begin, own;
};

// Calls f(target) for every target that counts and ignored(at) for the others.
template <class F, class G>
void for_each_target(const KernelCall& call, const NllLayout& l, F&& f, G&& ignored) {
  const auto ignore_index = call.attrs<CrossEntropyAttrs>().nll.ignore_index;
  const auto* target = call.in<std::int32_t>(1);
  for (std::int64_t n = 0; n < l.batch; ++n) {
    for (std::int64_t i = 0; i < l.inner; ++i) {
      const std::int64_t at = n * l.inner + i, own = target[at];
      if (own == ignore_index) {
        ignored(at);
        continue;
      }
      if (own < 0 || own >= l.classes) fail_target(call.request().op, l, at, own, ignore_index);
      f(Target{at, n * l.classes * l.inner + i, own});
    }
  }
}

// The weights of classes.
template <class T>
struct ClassWeights {
  using A = Accumulator<T>;
  const T* weight;  // or nullptr: all are 1

  A operator[](std::int64_t c) const { return weight == nullptr ? A{1} : static_cast<A>(weight[c]); }
  A total(std::int64_t classes) const {
    double sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) sum += static_cast<double>((*this)[c]);
    return static_cast<A>(sum);
  }
};

void cross_entropy(const KernelCall& call) {
  const NllLayout l(call.in_type(0).shape);
  const auto& attrs = call.attrs<CrossEntropyAttrs>();
  const std::string& reduction = attrs.nll.reduction;
  const double share = attrs.smoothing / static_cast<double>(l.classes);
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const T* x = call.in<T>(0);
    const ClassWeights<T> weights{call.has(2) ? call.in<T>(2) : nullptr};
    T* loss = call.out<T>(0);
    A *tops = call.out<A>(2), *sums = call.out<A>(3);
    std::fill(loss, loss + call.out_type(0).numel(), T{0});
    double losses = 0, total = 0;
    auto add = [&](const Target& target) {
      auto x_of = [&](std::int64_t c) { return static_cast<A>(x[target.begin + c * l.inner]); };
      A top = -std::numeric_limits<A>::infinity(), sum = 0;
      for (std::int64_t c = 0; c < l.classes; ++c) top = std::max(top, x_of(c));
      for (std::int64_t c = 0; c < l.classes; ++c) sum += std::exp(x_of(c) - top);
      const double shift = static_cast<double>(std::log(sum)), weight = static_cast<double>(weights[target.own]);
      auto log_p = [&](std::int64_t c) { return static_cast<double>(x_of(c) - top) - shift; };
      double value = -(1 - attrs.smoothing) * weight * log_p(target.own);
      if (share > 0) {
        for (std::int64_t c = 0; c < l.classes; ++c) value -= share * static_cast<double>(weights[c]) * log_p(c);
      }
      total += weight;
      losses += value;
      if (reduction == "none") loss[target.at] = static_cast<T>(value);
      tops[target.at] = top;
      sums[target.at] = sum;
    };
    for_each_target(call, l, add, [&](std::int64_t at) { tops[at] = 0, sums[at] = 1; });
    if (reduction == "sum") *loss = static_cast<T>(losses);
    if (reduction == "mean") *loss = static_cast<T>(total == 0 ? 0 : losses / total);
    *call.out<A>(1) = static_cast<A>(total);
  });
}

void cross_entropy_grad(const KernelCall& call) {
  const NllLayout l(call.in_type(0).shape);
  const auto& attrs = call.attrs<CrossEntropyAttrs>();
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const T *x = call.in<T>(0), *g = call.in<T>(4);
    const ClassWeights<T> weights{call.has(2) ? call.in<T>(2) : nullptr};
    const A *tops = call.has(5) ? call.in<A>(5) : nullptr, *sums = call.has(5) ? call.in<A>(6) : nullptr;
    T* dx = call.out<T>(0);
    const A total = *call.in<A>(3);
    const A scale = attrs.nll.reduction != "mean" ? A{1} : total == 0 ? A{0} : 1 / total;
    const A share = static_cast<A>(attrs.smoothing / static_cast<double>(l.classes));
    const A all_classes = share > 0 ? share * weights.total(l.classes) : A{0};
    auto write = [&](const Target& target) {
      const A own = static_cast<A>(1 - attrs.smoothing) * weights[target.own];
      const A each = static_cast<A>(g[attrs.nll.reduction == "none" ? target.at : 0]) * scale;
      const A top = tops == nullptr ? A{0} : tops[target.at], sum = sums == nullptr ? A{1} : sums[target.at];
      for (std::int64_t c = 0; c < l.classes; ++c) {
        const std::int64_t place = target.begin + c * l.inner;
        const A p = std::exp(static_cast<A>(x[place]) - top) / sum;
        const A wanted = share * weights[c] + (c == target.own ? own : A{0});
        dx[place] = static_cast<T>(each * (p * (own + all_classes) - wanted));
      }
    };
    auto clear = [&](std::int64_t at) {
      const std::int64_t begin = at / l.inner * l.classes * l.inner + at % l.inner;
      for (std::int64_t c = 0; c < l.classes; ++c) dx[begin + c * l.inner] = T{0};
    };
    for_each_target(call, l, write, clear);
  });
}

}  // namespace

void register_cross_entropy_ref(KernelRegistry& kernels) {
  kernels.add("cross_entropy", cross_entropy);
  kernels.add("cross_entropy_grad", cross_entropy_grad);
}

}  // namespace aspen
