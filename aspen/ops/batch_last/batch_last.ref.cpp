// Plain loops: a row of images is innermost. Sums are kept in the type of accumulators, or in double, and rounded once;
// a maximum is found among them before that.
#include "aspen/ops/batch_last/batch_last.h"

#include <algorithm>

#include "aspen/backends/api/kernel.h"

namespace aspen {
namespace {

struct Geometry {
  std::int64_t channels, outputs, images;
  std::int64_t height, width, out_height, out_width, kernel_y, kernel_x;
  const ConvLastAttrs& attrs;

  Geometry(const Shape& x, const Shape& w, const ConvLastAttrs& attrs)
      : channels(x[0]), outputs(w[0]), images(x[3]), height(x[1]), width(x[2]),
        out_height(x[1] + 2 * attrs.padding[0] - attrs.dilation[0] * (w[2] - 1)),
        out_width(x[2] + 2 * attrs.padding[1] - attrs.dilation[1] * (w[3] - 1)), kernel_y(w[2]), kernel_x(w[3]),
        attrs(attrs) {}

  std::int64_t out_pixels() const { return out_height * out_width; }
};

// Calls f(weight, pixel of x, pixel of y) for each product that is no padding; pixels count through all planes.
template <class F>
void for_each_tap(const Geometry& g, F&& f) {
  std::int64_t weight = 0;
  for (std::int64_t o = 0; o < g.outputs; ++o) {
    for (std::int64_t c = 0; c < g.channels; ++c) {
      for (std::int64_t ky = 0; ky < g.kernel_y; ++ky) {
        for (std::int64_t kx = 0; kx < g.kernel_x; ++kx, ++weight) {
          for (std::int64_t y = 0; y < g.out_height; ++y) {
            const std::int64_t in_y = y + ky * g.attrs.dilation[0] - g.attrs.padding[0];
            if (in_y < 0 || in_y >= g.height) continue;
            for (std::int64_t x = 0; x < g.out_width; ++x) {
              const std::int64_t in_x = x + kx * g.attrs.dilation[1] - g.attrs.padding[1];
              if (in_x < 0 || in_x >= g.width) continue;
              f(weight, (c * g.height + in_y) * g.width + in_x, (o * g.out_height + y) * g.out_width + x);
            }
          }
        }
      }
    }
  }
}

// y (O, OH, OW, N) in the type of accumulators.
template <class T, class A>
void convolve(const KernelCall& call, const Geometry& g, A* y) {
  const T *x = call.in<T>(0), *w = call.in<T>(1);
  for (std::int64_t o = 0; o < g.outputs; ++o) {
    const A bias = call.has(2) ? static_cast<A>(call.in<T>(2)[o]) : A{0};
    std::fill_n(y + o * g.out_pixels() * g.images, g.out_pixels() * g.images, bias);
  }
  for_each_tap(g, [&](std::int64_t weight, std::int64_t from, std::int64_t to) {
    for (std::int64_t n = 0; n < g.images; ++n) {
      y[to * g.images + n] += static_cast<A>(w[weight]) * static_cast<A>(x[from * g.images + n]);
    }
  });
}

template <class A>
A after_relu(A x, bool relu) {
  return relu && x < 0 ? A{0} : x;
}

void conv_last(const KernelCall& call) {
  const auto& attrs = call.attrs<ConvLastAttrs>();
  const Geometry g(call.in_type(0).shape, call.in_type(1).shape, attrs);
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    A* sums = call.workspace<A>();
    convolve<T>(call, g, sums);
    for (std::int64_t i = 0; i < call.out_type(0).numel(); ++i) {
      call.out<T>(0)[i] = static_cast<T>(after_relu(sums[i], attrs.relu));
    }
  });
}

struct Pooling {
  std::int64_t planes, height, width, images, window_y, window_x;

  Pooling(const Shape& x, const std::vector<std::int64_t>& window)
      : planes(x[0]), height(x[1]), width(x[2]), images(x[3]), window_y(window[0]), window_x(window[1]) {}

  std::int64_t places() const { return window_y * window_x; }
  // Calls f(result, first): the elements that are the first of a window, for each result in order.
  template <class F>
  void for_each(F&& f) const {
    std::int64_t result = 0;
    for (std::int64_t c = 0; c < planes; ++c) {
      for (std::int64_t y = 0; y + window_y <= height; y += window_y) {
        for (std::int64_t x = 0; x + window_x <= width; x += window_x) {
          for (std::int64_t n = 0; n < images; ++n) f(result++, ((c * height + y) * width + x) * images + n);
        }
      }
    }
  }
  // From the first element of a window to that at a place.
  std::int64_t offset(std::int64_t place) const { return (place / window_x * width + place % window_x) * images; }
};

template <class T, class X>
void pool(const KernelCall& call, const Pooling& p, const X* x, bool relu) {
  p.for_each([&](std::int64_t result, std::int64_t first) {
    std::int64_t best = 0;
    X value = x[first];
    for (std::int64_t place = 1; place < p.places(); ++place) {
      const X other = x[first + p.offset(place)];
      if (other > value || (other != other && value == value)) value = other, best = place;
    }
    call.out<T>(0)[result] = static_cast<T>(after_relu(value, relu));
    call.out<std::uint8_t>(1)[result] = static_cast<std::uint8_t>(best);
  });
}

void conv_last_pool(const KernelCall& call) {
  const auto& attrs = call.attrs<ConvLastPoolAttrs>();
  const Geometry g(call.in_type(0).shape, call.in_type(1).shape, attrs.conv);
  const Pooling p({g.outputs, g.out_height, g.out_width, g.images}, attrs.window);
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto* sums = call.workspace<Accumulator<T>>();
    convolve<T>(call, g, sums);
    pool<T>(call, p, sums, attrs.conv.relu);
  });
}

void max_pool_last(const KernelCall& call) {
  const Pooling p(call.in_type(0).shape, call.attrs<MaxPoolLastAttrs>().window);
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, Accumulator<T>>) {
      pool<T>(call, p, call.in<T>(0), false);
    } else {
      auto* x = call.workspace<Accumulator<T>>();
      for (std::int64_t i = 0; i < call.in_type(0).numel(); ++i) x[i] = static_cast<Accumulator<T>>(call.in<T>(0)[i]);
      pool<T>(call, p, x, false);
    }
  });
}

// g of the pooled result back at its places, zeros elsewhere.
template <class X, class T>
void unpool(const Pooling& p, const T* g, const std::uint8_t* place, X* dx) {
  std::fill_n(dx, p.planes * p.height * p.width * p.images, X{});
  p.for_each([&](std::int64_t result, std::int64_t first) {
    if (place[result] < p.places()) dx[first + p.offset(place[result])] = static_cast<X>(g[result]);
  });
}

void max_pool_last_grad(const KernelCall& call) {
  const auto& attrs = call.attrs<MaxPoolLastGradAttrs>();
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    unpool(Pooling(attrs.shape, attrs.window), call.in<T>(0), call.in<std::uint8_t>(1), call.out<T>(0));
  });
}

void conv_last_input_grad(const KernelCall& call) {
  const auto& attrs = call.attrs<ConvLastGradAttrs>();
  const Geometry g(attrs.shape, call.in_type(1).shape, attrs.conv);
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    A* dx = call.workspace<A>();
    const std::int64_t size = call.out_type(0).numel();
    std::fill_n(dx, size, A{0});
    for_each_tap(g, [&](std::int64_t weight, std::int64_t to, std::int64_t from) {
      for (std::int64_t n = 0; n < g.images; ++n) {
        dx[to * g.images + n] +=
            static_cast<A>(call.in<T>(1)[weight]) * static_cast<A>(call.in<T>(0)[from * g.images + n]);
      }
    });
    for (std::int64_t i = 0; i < size; ++i) call.out<T>(0)[i] = static_cast<T>(dx[i]);
  });
}

// Results dw and db; gradient (O, OH, OW, N). Sums over all images are long: they are kept in double.
template <class T, class G>
void weight_grads(const KernelCall& call, const Geometry& g, const G* gradient) {
  using A = Accumulator<T>;
  const T* x = call.in<T>(0);
  std::int64_t last = 0;
  double sum = 0;
  const auto finish = [&](std::int64_t weight) { call.out<T>(0)[weight] = static_cast<T>(static_cast<A>(sum)); };
  std::fill_n(call.out<T>(0), call.out_type(0).numel(), T(0));
  for_each_tap(g, [&](std::int64_t weight, std::int64_t from, std::int64_t at) {
    if (weight != last) {
      finish(last);
      sum = 0;
      last = weight;
    }
    for (std::int64_t n = 0; n < g.images; ++n) {
      sum += static_cast<double>(static_cast<A>(x[from * g.images + n]) * static_cast<A>(gradient[at * g.images + n]));
    }
  });
  if (call.out_type(0).numel() > 0) finish(last);
  const std::int64_t plane = g.out_pixels() * g.images;
  for (std::int64_t o = 0; o < g.outputs; ++o) {
    double total = 0;
    for (std::int64_t i = 0; i < plane; ++i) total += static_cast<double>(static_cast<A>(gradient[o * plane + i]));
    call.out<T>(1)[o] = static_cast<T>(static_cast<A>(total));
  }
}

void conv_last_weight_grad(const KernelCall& call) {
  const auto& attrs = call.attrs<ConvLastGradAttrs>();
  const Geometry g(call.in_type(0).shape, attrs.shape, attrs.conv);
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    weight_grads<T>(call, g, call.in<T>(1));
  });
}

void conv_last_pool_weight_grad(const KernelCall& call) {
  const auto& attrs = call.attrs<ConvLastPoolGradAttrs>();
  const Geometry g(call.in_type(0).shape, attrs.shape, attrs.pool.conv);
  const Pooling p({g.outputs, g.out_height, g.out_width, g.images}, attrs.pool.window);
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto* gradient = call.workspace<Accumulator<T>>();
    unpool(p, call.in<T>(1), call.in<std::uint8_t>(2), gradient);
    weight_grads<T>(call, g, gradient);
  });
}

std::size_t bytes_of(DType dtype, std::int64_t elements) {
  return static_cast<std::size_t>(elements) * (dtype == DType::kF64 ? sizeof(double) : sizeof(float));
}

std::size_t result_workspace(const KernelRequest& request) {
  return bytes_of(request.outputs[0].dtype, request.outputs[0].numel());
}

std::size_t input_workspace(const KernelRequest& request) {
  return bytes_of(request.inputs[0].type.dtype, request.inputs[0].type.numel());
}

std::size_t before_pool_workspace(const Shape& x, const Shape& w, const ConvLastAttrs& attrs, DType dtype) {
  const Geometry g(x, w, attrs);
  return bytes_of(dtype, g.outputs * g.out_pixels() * g.images);
}

std::size_t conv_pool_workspace(const KernelRequest& request) {
  const TensorType& x = request.inputs[0].type;
  const auto& attrs = request.attrs.as<ConvLastPoolAttrs>();
  return before_pool_workspace(x.shape, request.inputs[1].type.shape, attrs.conv, x.dtype);
}

std::size_t pool_weight_grad_workspace(const KernelRequest& request) {
  const TensorType& x = request.inputs[0].type;
  const auto& attrs = request.attrs.as<ConvLastPoolGradAttrs>();
  return before_pool_workspace(x.shape, attrs.shape, attrs.pool.conv, x.dtype);
}

}  // namespace

void register_batch_last_ref(KernelRegistry& kernels) {
  kernels.add("conv_last", conv_last, result_workspace);
  kernels.add("conv_last_pool", conv_last_pool, conv_pool_workspace);
  kernels.add("conv_last_input_grad", conv_last_input_grad, result_workspace);
  kernels.add("conv_last_weight_grad", conv_last_weight_grad);
  kernels.add("conv_last_pool_weight_grad", conv_last_pool_weight_grad, pool_weight_grad_workspace);
  kernels.add("max_pool_last", max_pool_last, input_workspace);
  kernels.add("max_pool_last_grad", max_pool_last_grad);
}

}  // namespace aspen
