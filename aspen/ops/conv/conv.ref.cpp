// Plain loops over (n, o, c, tap) whose innermost loop is one row of the output: fast enough to run whole models
// in tests, simple enough to trust. Fewer than three spatial axes are padded with leading axes of extent 1.
#include "aspen/ops/conv/conv.h"

#include <algorithm>

#include "aspen/backends/api/kernel.h"
#include "aspen/backends/reference/widen.h"
#include "aspen/ops/conv/conv_partials.ref.h"

namespace aspen {
namespace {

constexpr int kAxes = 3;

struct Geometry {
  std::int64_t batch, channels, outputs, groups;
  std::int64_t in[kAxes], out[kAxes], kernel[kAxes], stride[kAxes], padding[kAxes], dilation[kAxes];

  std::int64_t in_plane() const { return in[0] * in[1] * in[2]; }
  std::int64_t out_plane() const { return out[0] * out[1] * out[2]; }
  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  std::int64_t channels_per_group() const { return channels / groups; }
  std::int64_t outputs_per_group() const { return outputs / groups; }
};

Geometry geometry(const Shape& x, const Shape& w, const Shape& y, const ConvAttrs& attrs) {
  Geometry g{x[0], x[1], y[1], attrs.groups, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}};
  int axes = static_cast<int>(x.size()) - 2;
  for (int i = 0; i < axes; ++i) {
    int a = kAxes - axes + i;
    g.in[a] = x[i + 2];
    g.out[a] = y[i + 2];
    g.kernel[a] = w[i + 2];
    g.stride[a] = attrs.stride[i];
    g.padding[a] = attrs.padding[i];
    g.dilation[a] = attrs.dilation[i];
  }
  return g;
}

// Output positions begin <= p < end whose tap falls inside the input, at p * stride + offset.
struct Span {
  std::int64_t begin, end, offset;
};

Span span(const Geometry& g, int axis, std::int64_t tap) {
  std::int64_t offset = tap * g.dilation[axis] - g.padding[axis], stride = g.stride[axis];
  std::int64_t begin = offset < 0 ? (-offset + stride - 1) / stride : 0;
  std::int64_t room = g.in[axis] - offset;  // p * stride < room
  std::int64_t end = room <= 0 ? 0 : std::min(g.out[axis], (room + stride - 1) / stride);
  return {begin, std::max(begin, end), offset};
}

// Calls row(tap, in, out, count) for every tap and every row of the output it reaches: `in` and `out` are the places
// in their planes of the first element; along the input the row advances by stride[2].
template <class F>
void for_each_row(const Geometry& g, F&& row) {
  std::int64_t tap = 0;
  for (std::int64_t t0 = 0; t0 < g.kernel[0]; ++t0) {
    Span s0 = span(g, 0, t0);
    for (std::int64_t t1 = 0; t1 < g.kernel[1]; ++t1) {
      Span s1 = span(g, 1, t1);
      for (std::int64_t t2 = 0; t2 < g.kernel[2]; ++t2, ++tap) {
        Span s2 = span(g, 2, t2);
        if (s2.begin >= s2.end) continue;
        for (std::int64_t p0 = s0.begin; p0 < s0.end; ++p0) {
          for (std::int64_t p1 = s1.begin; p1 < s1.end; ++p1) {
            std::int64_t i0 = p0 * g.stride[0] + s0.offset, i1 = p1 * g.stride[1] + s1.offset;
            row(tap, (i0 * g.in[1] + i1) * g.in[2] + s2.begin * g.stride[2] + s2.offset,
                (p0 * g.out[1] + p1) * g.out[2] + s2.begin, s2.end - s2.begin);
          }
        }
      }
    }
  }
}

template <class A>
void forward_plane(const Geometry& g, const A* x, const A* w, A* __restrict y) {
  for_each_row(g, [&](auto tap, auto in, auto out, auto count) {
    A factor = w[tap];
    const A* from = x + in;
    A* __restrict to = y + out;
    if (g.stride[2] == 1) {
      for (std::int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
    } else {
      for (std::int64_t i = 0; i < count; ++i) to[i] += factor * from[i * g.stride[2]];
    }
  });
}

template <class A>
void input_grad_plane(const Geometry& g, const A* gradient, const A* w, A* __restrict dx) {
  for_each_row(g, [&](auto tap, auto in, auto out, auto count) {
    A factor = w[tap];
    const A* from = gradient + out;
    A* __restrict to = dx + in;
    if (g.stride[2] == 1) {
      for (std::int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
    } else {
      for (std::int64_t i = 0; i < count; ++i) to[i * g.stride[2]] += factor * from[i];
    }
  });
}

// Sums in eight lanes: several times faster than one chain of additions, and closer to the exact sum.
template <class A>
A dot_row(const A* x, std::int64_t stride, const A* g, std::int64_t count) {
  constexpr int kLanes = 8;
  A lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] += x[(i + l) * stride] * g[i + l];
  }
  A rest = 0;
  for (; i < count; ++i) rest += x[i * stride] * g[i];
  for (A lane : lanes) rest += lane;
  return rest;
}

template <class A>
void weight_grad_taps(const Geometry& g, const A* x, const A* gradient, A* dw) {
  for_each_row(g, [&](auto tap, auto in, auto out, auto count) {
    dw[tap] += dot_row(x + in, g.stride[2], gradient + out, count);
  });
}

template <class T, class A>
void store(const A* sums, std::int64_t n, T* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(sums[i]);
}

// Convolutions of integers are those of i32.
template <class F>
void dispatch_sums(DType type, F&& f) {
  if (type == DType::kI32) return f(TypeTag<std::int32_t>{});
  dispatch_floating(type, f);
}

void forward(const KernelCall& call, const ConvAttrs& attrs) {
  const TensorType &x_type = call.in_type(0), &w_type = call.in_type(1);
  Geometry g = geometry(x_type.shape, w_type.shape, call.out_type(0).shape, attrs);
  dispatch_sums(x_type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    A* work = call.workspace<A>();
    const A* x = widened(call.in<T>(0), x_type.numel(), work);
    const A* w = widened(call.in<T>(1), w_type.numel(), work);
    for (std::int64_t n = 0; n < g.batch; ++n) {
      for (std::int64_t o = 0; o < g.outputs; ++o) {
        std::fill(work, work + g.out_plane(), call.has(2) ? static_cast<A>(call.in<T>(2)[o]) : A{0});
        std::int64_t first = o / g.outputs_per_group() * g.channels_per_group();
        for (std::int64_t c = 0; c < g.channels_per_group(); ++c) {
          forward_plane(g, x + (n * g.channels + first + c) * g.in_plane(),
                        w + (o * g.channels_per_group() + c) * g.taps(), work);
        }
        store(work, g.out_plane(), call.out<T>(0) + (n * g.outputs + o) * g.out_plane());
      }
    }
  });
}

void conv(const KernelCall& call) { forward(call, call.attrs<ConvAttrs>()); }

void conv_affine(const KernelCall& call) {
  const auto& attrs = call.attrs<ConvAffineAttrs>();
  forward(call, attrs.conv);
  dispatch_floating(call.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const A low = static_cast<A>(attrs.low), high = static_cast<A>(attrs.high);
    const std::int64_t outputs = call.out_type(0).shape[1], planes = call.out_type(0).shape[0] * outputs;
    const std::int64_t plane = planes == 0 ? 0 : call.out_type(0).numel() / planes;
    for (std::int64_t i = 0; i < planes * plane; ++i) {
      const std::int64_t channel = i / plane % outputs;
      A y = static_cast<A>(call.out<T>(0)[i]);
      if (call.has(3)) y = y * static_cast<A>(call.in<T>(3)[channel]);
      if (call.has(4)) y = y + static_cast<A>(call.in<T>(4)[channel]);
      if (call.has(5)) y = y + static_cast<A>(call.in<T>(5)[i]);
      y = y < low ? low : y;
      call.out<T>(0)[i] = static_cast<T>(y > high ? high : y);
    }
  });
}

void conv_input_grad(const KernelCall& call) {
  const TensorType &g_type = call.in_type(0), &w_type = call.in_type(1);
  Geometry g = geometry(call.out_type(0).shape, w_type.shape, g_type.shape, call.attrs<ConvGradAttrs>().conv);
  dispatch_sums(g_type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    A* work = call.workspace<A>();
    const A* gradient = widened(call.in<T>(0), g_type.numel(), work);
    const A* w = widened(call.in<T>(1), w_type.numel(), work);
    for (std::int64_t n = 0; n < g.batch; ++n) {
      for (std::int64_t c = 0; c < g.channels; ++c) {
        std::fill(work, work + g.in_plane(), A{0});
        std::int64_t first = c / g.channels_per_group() * g.outputs_per_group();
        std::int64_t within = c % g.channels_per_group();
        for (std::int64_t o = first; o < first + g.outputs_per_group(); ++o) {
          input_grad_plane(g, gradient + (n * g.outputs + o) * g.out_plane(),
                           w + (o * g.channels_per_group() + within) * g.taps(), work);
        }
        store(work, g.in_plane(), call.out<T>(0) + (n * g.channels + c) * g.in_plane());
      }
    }
  });
}

void conv_weight_grad(const KernelCall& call) {
  const TensorType &x_type = call.in_type(0), &g_type = call.in_type(1);
  Geometry g = geometry(x_type.shape, call.out_type(0).shape, g_type.shape, call.attrs<ConvGradAttrs>().conv);
  dispatch_sums(x_type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    A* work = call.workspace<A>();
    const A* x = widened(call.in<T>(0), x_type.numel(), work);
    const A* gradient = widened(call.in<T>(1), g_type.numel(), work);
    for (std::int64_t o = 0; o < g.outputs; ++o) {
      std::int64_t first = o / g.outputs_per_group() * g.channels_per_group();
      for (std::int64_t c = 0; c < g.channels_per_group(); ++c) {
        std::fill(work, work + g.taps(), A{0});
        for (std::int64_t n = 0; n < g.batch; ++n) {
          weight_grad_taps(g, x + (n * g.channels + first + c) * g.in_plane(),
                           gradient + (n * g.outputs + o) * g.out_plane(), work);
        }
        store(work, g.taps(), call.out<T>(0) + (o * g.channels_per_group() + c) * g.taps());
      }
    }
  });
}

// Both operands in the type of the sums, and one plane of them.
std::size_t conv_workspace(const KernelRequest& request) {
  std::size_t size = request.outputs[0].dtype == DType::kF64 ? sizeof(double) : sizeof(float);
  const Shape& shape = request.outputs[0].shape;
  std::int64_t plane = 1;
  for (std::size_t i = 2; i < shape.size(); ++i) plane *= shape[i];
  return widened_bytes(request.inputs[0].type) + widened_bytes(request.inputs[1].type) +
         static_cast<std::size_t>(plane) * size;
}

}  // namespace

void register_conv_ref(KernelRegistry& kernels) {
  kernels.add("conv", half_partials(plain_kernel(conv, conv_workspace), conv_axes));
  kernels.add("conv_input_grad", half_partials(plain_kernel(conv_input_grad, conv_workspace), conv_input_grad_axes));
  kernels.add("conv_weight_grad", half_partials(plain_kernel(conv_weight_grad, conv_workspace), conv_weight_grad_axes));
  kernels.add("conv", conv, conv_workspace);
  kernels.add("conv_affine", conv_affine, conv_workspace);
  kernels.add("conv_input_grad", conv_input_grad, conv_workspace);
  kernels.add("conv_weight_grad", conv_weight_grad, conv_workspace);
  // Between conversions, as everything in bfloat16.
  kernels.add("conv_float", conv, conv_workspace);
  kernels.add("conv_input_grad_float", conv_input_grad, conv_workspace);
  kernels.add("conv_weight_grad_float", conv_weight_grad, conv_workspace);
}

}  // namespace aspen
