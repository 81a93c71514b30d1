// Sums are kept in double; y is made of the statistics as they are given out, so that the gradient can make it again.
#include "aspen/ops/batch_norm/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "aspen/backends/api/kernel.h"

namespace aspen {
namespace {

template <class T>
using Statistic = Accumulator<T>;

// x: (images, channels, size).
struct Planes {
  explicit Planes(const TensorType& x) : images(x.shape[0]), channels(x.shape[1]) {
    for (std::size_t i = 2; i < x.shape.size(); ++i) size *= x.shape[i];
  }
  double count() const { return static_cast<double>(images * size); }

  // f(element) for all elements of a channel.
  template <class F>
  void for_each_of(std::int64_t channel, F&& f) const {
    for (std::int64_t image = 0; image < images; ++image) {
      for (std::int64_t i = 0; i < size; ++i) f((image * channels + channel) * size + i);
    }
  }

  std::int64_t images, channels, size = 1;
};

// One channel: z = (x - mean) * rstd * scale + shift.
struct Affine {
  double mean, rstd, scale, shift;
  double normal(double x) const { return (x - mean) * rstd; }
  double operator()(double x) const { return normal(x) * scale + shift; }
};

template <class T>
Affine affine_of(const KernelCall& call, std::int64_t channel, Statistic<T> mean, Statistic<T> rstd) {
  auto number = [&](std::size_t input, double without) {
    return call.has(input) ? static_cast<double>(call.in<T>(input)[channel]) : without;
  };
  return {static_cast<double>(mean), static_cast<double>(rstd), number(1, 1), number(2, 0)};
}

template <class T>
void find_statistics(const Planes& planes, const T* x, double epsilon, std::int64_t channel, Statistic<T>& mean,
                     Statistic<T>& rstd) {
  double sum = 0, squares = 0;
  planes.for_each_of(channel, [&](auto i) { sum += static_cast<double>(x[i]); });
  const double center = sum / planes.count();
  planes.for_each_of(channel, [&](auto i) {
    const double away = static_cast<double>(x[i]) - center;
    squares += away * away;
  });
  mean = static_cast<Statistic<T>>(center);
  rstd = static_cast<Statistic<T>>(1 / std::sqrt(squares / planes.count() + epsilon));
}

void normalize_bounded(const KernelCall& call, const BoundedBatchNormAttrs& attrs, bool has_other) {
  const Planes planes(call.in_type(0));
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const T *x = call.in<T>(0), *other = has_other ? call.in<T>(3) : nullptr;
    T* y = call.out<T>(0);
    auto *mean = call.out<Statistic<T>>(1), *rstd = call.out<Statistic<T>>(2);
    const A low = static_cast<A>(attrs.low), high = static_cast<A>(attrs.high);
    for (std::int64_t channel = 0; channel < planes.channels; ++channel) {
      find_statistics<T>(planes, x, attrs.norm.epsilon, channel, mean[channel], rstd[channel]);
      const Affine affine = affine_of<T>(call, channel, mean[channel], rstd[channel]);
      planes.for_each_of(channel, [&](auto i) {
        A z = static_cast<A>(affine(static_cast<double>(x[i])));
        if (other != nullptr) z += static_cast<A>(other[i]);
        if (z < low) z = low;  // NaN stays
        if (z > high) z = high;
        y[i] = static_cast<T>(z);
      });
    }
  });
}

// Whether the gradient of y is that of z.
template <class A>
bool lets_through(A z, const BoundedBatchNormAttrs& attrs) {
  const A low = static_cast<A>(attrs.low), high = static_cast<A>(attrs.high);
  if (!attrs.open) return z >= low && z <= high;
  return !(z <= low || (std::isfinite(attrs.high) && z >= high));
}

bool has_bounds(const BoundedBatchNormAttrs& attrs) { return std::isfinite(attrs.low) || std::isfinite(attrs.high); }

void batch_norm_grad(const KernelCall& call) {
  const Planes planes(call.in_type(0));
  const auto& attrs = call.attrs<BoundedBatchNormAttrs>();
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const T *x = call.in<T>(0), *g = call.in<T>(5);
    auto *mean = call.in<Statistic<T>>(3), *rstd = call.in<Statistic<T>>(4);
    T *dx = call.out<T>(0), *dscale = call.out<T>(1), *dshift = call.out<T>(2);
    for (std::int64_t channel = 0; channel < planes.channels; ++channel) {
      const Affine affine = affine_of<T>(call, channel, mean[channel], rstd[channel]);
      auto gradient = [&](std::int64_t i) {
        const A z = static_cast<A>(affine(static_cast<double>(x[i])));
        return !has_bounds(attrs) || lets_through(z, attrs) ? static_cast<double>(g[i]) : 0.0;
      };
      double sum = 0, products = 0;
      planes.for_each_of(channel, [&](auto i) {
        sum += gradient(i);
        products += gradient(i) * affine.normal(static_cast<double>(x[i]));
      });
      dshift[channel] = static_cast<T>(sum);
      dscale[channel] = static_cast<T>(products);
      sum /= planes.count();
      products /= planes.count();
      planes.for_each_of(channel, [&](auto i) {
        const double centred = gradient(i) - sum - affine.normal(static_cast<double>(x[i])) * products;
        dx[i] = static_cast<T>(affine.scale * affine.rstd * centred);
      });
    }
  });
}

}  // namespace

void register_batch_norm_ref(KernelRegistry& kernels) {
  kernels.add("batch_norm",
              [](const KernelCall& call) { normalize_bounded(call, {.norm = call.attrs<BatchNormAttrs>()}, false); });
  kernels.add("batch_norm_bounded", [](const KernelCall& call) {
    normalize_bounded(call, call.attrs<BoundedBatchNormAttrs>(), call.has(3));
  });
  kernels.add("batch_norm_grad", batch_norm_grad);
}

}  // namespace aspen
