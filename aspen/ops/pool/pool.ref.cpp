// Fewer than three spatial axes are padded with leading axes of extent 1. The averages see their windows as lists of
// bins per axis, made with the kernel, so that plain and adaptive pooling and their gradients share one loop.
#include "aspen/ops/pool/pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "aspen/backends/api/kernel.h"
#include "aspen/ops/pool/bins.ref.h"

namespace aspen {
namespace {

constexpr int kAxes = 3;

// Extents of the spatial axes, aligned to the right.
struct Plane {
  std::int64_t extent[kAxes] = {1, 1, 1};
  std::int64_t count = 1;   // elements
  std::int64_t planes = 1;  // N * C

  explicit Plane(const Shape& shape) : planes(shape[0] * shape[1]) {
    for (std::size_t i = 2; i < shape.size(); ++i) {
      extent[kAxes - shape.size() + i] = shape[i];
      count *= shape[i];
    }
  }
};

// -- maximum ----------------------------------------------------------------------------------------------------

struct Window {
  std::int64_t kernel[kAxes] = {1, 1, 1}, stride[kAxes] = {1, 1, 1}, padding[kAxes] = {0, 0, 0},
               dilation[kAxes] = {1, 1, 1};

  explicit Window(const PoolAttrs& attrs) {
    for (std::size_t i = 0; i < attrs.kernel.size(); ++i) {
      std::size_t a = kAxes - attrs.kernel.size() + i;
      kernel[a] = attrs.kernel[i];
      stride[a] = attrs.stride[i];
      padding[a] = attrs.padding[i];
      dilation[a] = attrs.dilation[i];
    }
  }
};

// The first maximum of the window of output (p0, p1, p2); -1 where the window holds padding only.
template <class T>
std::int64_t find_max(const T* x, const Plane& in, const Window& w, std::int64_t p0, std::int64_t p1, std::int64_t p2) {
  std::int64_t best = -1;
  for (std::int64_t t0 = 0; t0 < w.kernel[0]; ++t0) {
    std::int64_t i0 = p0 * w.stride[0] - w.padding[0] + t0 * w.dilation[0];
    if (i0 < 0 || i0 >= in.extent[0]) continue;
    for (std::int64_t t1 = 0; t1 < w.kernel[1]; ++t1) {
      std::int64_t i1 = p1 * w.stride[1] - w.padding[1] + t1 * w.dilation[1];
      if (i1 < 0 || i1 >= in.extent[1]) continue;
      for (std::int64_t t2 = 0; t2 < w.kernel[2]; ++t2) {
        std::int64_t i2 = p2 * w.stride[2] - w.padding[2] + t2 * w.dilation[2];
        if (i2 < 0 || i2 >= in.extent[2]) continue;
        std::int64_t i = (i0 * in.extent[1] + i1) * in.extent[2] + i2;
        if (best < 0 || x[i] > x[best] || (x[i] != x[i] && x[best] == x[best])) best = i;
      }
    }
  }
  return best;
}

void max_pool(const KernelCall& call) {
  Plane in(call.in_type(0).shape), out(call.out_type(0).shape);
  Window window(call.attrs<PoolAttrs>());
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* y = call.out<T>(0);
    std::int32_t* index = call.out<std::int32_t>(1);
    for (std::int64_t plane = 0; plane < in.planes; ++plane) {
      const T* x = call.in<T>(0) + plane * in.count;
      for (std::int64_t p0 = 0; p0 < out.extent[0]; ++p0) {
        for (std::int64_t p1 = 0; p1 < out.extent[1]; ++p1) {
          for (std::int64_t p2 = 0; p2 < out.extent[2]; ++p2) {
            std::int64_t best = find_max(x, in, window, p0, p1, p2);
            *y++ = best < 0 ? static_cast<T>(-std::numeric_limits<double>::infinity()) : x[best];
            *index++ = static_cast<std::int32_t>(best);
          }
        }
      }
    }
  });
}

void max_pool_grad(const KernelCall& call) {
  Plane out(call.in_type(0).shape), in(call.out_type(0).shape);
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const T* g = call.in<T>(0);
    const std::int32_t* index = call.in<std::int32_t>(1);
    A* sums = call.workspace<A>();
    for (std::int64_t plane = 0; plane < in.planes; ++plane) {
      std::fill(sums, sums + in.count, A{0});
      for (std::int64_t p = 0; p < out.count; ++p, ++g, ++index) {
        if (*index == -1) continue;
        if (*index < 0 || *index >= in.count) {
          throw UserError("[max_pool_grad] index {} at position {} is out of range for a plane of {} elements.", *index,
                          plane * out.count + p, in.count);
        }
        sums[*index] += static_cast<A>(*g);
      }
      T* dx = call.out<T>(0) + plane * in.count;
      for (std::int64_t i = 0; i < in.count; ++i) dx[i] = static_cast<T>(sums[i]);
    }
  });
}

std::size_t plane_workspace(const KernelRequest& request) {
  return static_cast<std::size_t>(Plane(request.outputs[0].shape).count) * sizeof(double);
}

// -- averages ---------------------------------------------------------------------------------------------------

class AverageKernel final : public Kernel {
 public:
  AverageKernel(DType dtype, const Shape& x, bool gradient, std::int64_t divisor)
      : dtype_(dtype), in_(x), gradient_(gradient), divisor_(divisor), bins_(kAxes, Bins{{0, 1, 1}}) {}

  void set_bins(std::size_t axis_from_end, Bins bins) { bins_[kAxes - axis_from_end] = std::move(bins); }

  std::size_t workspace_bytes() const override {
    return gradient_ ? sizeof(double) * static_cast<std::size_t>(in_.count) : 0;
  }

  void run(const KernelArgs& args) const override {
    dispatch_floating(dtype_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* from = static_cast<const T*>(args.inputs[0]);
      T* to = static_cast<T*>(args.outputs[0]);
      if (gradient_) {
        spread(from, to, static_cast<Accumulator<T>*>(args.workspace));
      } else {
        average(from, to);
      }
    });
  }

 private:
  // Calls f(b0, b1, b2, divisor) for every window of a plane, in the order of the output.
  template <class F>
  void for_each_window(F&& f) const {
    for (const Bin& b0 : bins_[0]) {
      for (const Bin& b1 : bins_[1]) {
        for (const Bin& b2 : bins_[2]) f(b0, b1, b2, divisor_ != 0 ? divisor_ : b0.length * b1.length * b2.length);
      }
    }
  }

  // Calls f(place in the plane, count) for every row of a window.
  template <class F>
  void for_each_row(const Bin& b0, const Bin& b1, const Bin& b2, F&& f) const {
    for (std::int64_t i0 = b0.begin; i0 < b0.end; ++i0) {
      for (std::int64_t i1 = b1.begin; i1 < b1.end; ++i1) {
        f((i0 * in_.extent[1] + i1) * in_.extent[2] + b2.begin, b2.end - b2.begin);
      }
    }
  }

  template <class T>
  void average(const T* x, T* y) const {
    using A = Accumulator<T>;
    for (std::int64_t plane = 0; plane < in_.planes; ++plane, x += in_.count) {
      for_each_window([&](const Bin& b0, const Bin& b1, const Bin& b2, std::int64_t divisor) {
        A sum = 0;
        for_each_row(b0, b1, b2, [&](auto at, auto count) {
          for (std::int64_t i = 0; i < count; ++i) sum += static_cast<A>(x[at + i]);
        });
        // A window of padding alone has nothing to divide.
        *y++ = static_cast<T>(sum == 0 ? A{0} : sum / static_cast<A>(divisor));
      });
    }
  }

  template <class T>
  void spread(const T* g, T* dx, Accumulator<T>* sums) const {
    using A = Accumulator<T>;
    for (std::int64_t plane = 0; plane < in_.planes; ++plane, dx += in_.count) {
      std::fill(sums, sums + in_.count, A{0});
      for_each_window([&](const Bin& b0, const Bin& b1, const Bin& b2, std::int64_t divisor) {
        A share = static_cast<A>(*g++) / static_cast<A>(divisor);
        for_each_row(b0, b1, b2, [&](auto at, auto count) {
          for (std::int64_t i = 0; i < count; ++i) sums[at + i] += share;
        });
      });
      for (std::int64_t i = 0; i < in_.count; ++i) dx[i] = static_cast<T>(sums[i]);
    }
  }

  DType dtype_;
  Plane in_;
  bool gradient_;
  std::int64_t divisor_;
  std::vector<Bins> bins_;
};

std::unique_ptr<Kernel> make_average(const KernelRequest& request, const PoolAttrs* attrs, bool gradient) {
  const Shape& x = gradient ? request.outputs[0].shape : request.inputs[0].type.shape;
  const Shape& y = gradient ? request.inputs[0].type.shape : request.outputs[0].shape;
  auto kernel =
      std::make_unique<AverageKernel>(request.outputs[0].dtype, x, gradient, attrs != nullptr ? attrs->divisor : 0);
  for (std::size_t i = 2; i < x.size(); ++i) {
    kernel->set_bins(x.size() - i,
                     attrs != nullptr ? window_bins(*attrs, i - 2, x[i], y[i]) : adaptive_bins(x[i], y[i]));
  }
  return kernel;
}

}  // namespace

void register_pool_ref(KernelRegistry& kernels) {
  using Made = std::unique_ptr<Kernel>;
  kernels.add("max_pool", max_pool);
  kernels.add("max_pool_grad", max_pool_grad, plane_workspace);
  kernels.add("avg_pool", [](const KernelRequest& request, std::string&) -> Made {
    return make_average(request, &request.attrs.as<PoolAttrs>(), false);
  });
  kernels.add("avg_pool_grad", [](const KernelRequest& request, std::string&) -> Made {
    return make_average(request, &request.attrs.as<AvgPoolGradAttrs>().pool, true);
  });
  kernels.add("adaptive_avg_pool",
              [](const KernelRequest& request, std::string&) -> Made { return make_average(request, nullptr, false); });
  kernels.add("adaptive_avg_pool_grad",
              [](const KernelRequest& request, std::string&) -> Made { return make_average(request, nullptr, true); });
}

}  // namespace aspen
