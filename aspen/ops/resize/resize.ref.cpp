// The taps of every output position are listed per axis when the kernel is made; running it is a weighted sum over
// their products, or the same loop turned round for the gradient. Fewer than three spatial axes are padded with leading
// axes of extent 1.
#include "aspen/ops/resize/resize.h"

#include <algorithm>

#include "aspen/backends/api/kernel.h"
#include "aspen/ops/resize/taps.ref.h"

namespace aspen {
namespace {

constexpr int kAxes = 3;

class ResizeKernel final : public Kernel {
 public:
  ResizeKernel(const KernelRequest& request, bool gradient) : dtype_(request.outputs[0].dtype), gradient_(gradient) {
    const Shape& x = gradient ? request.outputs[0].shape : request.inputs[0].type.shape;
    const auto& attrs = request.attrs.as<ResizeAttrs>();
    planes_ = x[0] * x[1];
    for (std::size_t i = 2; i < x.size(); ++i) {
      axes_[kAxes - x.size() + i] = axis_taps(attrs, i - 2, x[i]);
      plane_ *= x[i];
    }
  }

  std::size_t workspace_bytes() const override {
    return gradient_ ? static_cast<std::size_t>(plane_) * sizeof(double) : 0;
  }

  void run(const KernelArgs& args) const override {
    dispatch_floating(dtype_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* from = static_cast<const T*>(args.inputs[0]);
      T* to = static_cast<T*>(args.outputs[0]);
      if (gradient_) {
        spread(from, to, static_cast<Accumulator<T>*>(args.workspace));
      } else {
        interpolate(from, to);
      }
    });
  }

 private:
  // Calls f(taps0, taps1, taps2) for every output of a plane, in order.
  template <class F>
  void for_each_output(F&& f) const {
    for (std::size_t p0 = 0; p0 < axes_[0].num_outputs(); ++p0) {
      for (std::size_t p1 = 0; p1 < axes_[1].num_outputs(); ++p1) {
        for (std::size_t p2 = 0; p2 < axes_[2].num_outputs(); ++p2) f(taps(0, p0), taps(1, p1), taps(2, p2));
      }
    }
  }
  const Tap* taps(int axis, std::size_t output) const { return &axes_[axis].taps[output * axes_[axis].per_output]; }

  template <class T>
  void interpolate(const T* x, T* y) const {
    using A = Accumulator<T>;
    for (std::int64_t plane = 0; plane < planes_; ++plane, x += plane_) {
      for_each_output([&](const Tap* t0, const Tap* t1, const Tap* t2) {
        A sum = 0;
        for (std::size_t k0 = 0; k0 < axes_[0].per_output; ++k0) {
          A outer = 0;
          for (std::size_t k1 = 0; k1 < axes_[1].per_output; ++k1) {
            const T* row = x + (t0[k0].index * axes_[1].in + t1[k1].index) * axes_[2].in;
            A inner = 0;
            for (std::size_t k2 = 0; k2 < axes_[2].per_output; ++k2) {
              inner += static_cast<A>(t2[k2].weight) * static_cast<A>(row[t2[k2].index]);
            }
            outer += static_cast<A>(t1[k1].weight) * inner;
          }
          sum += static_cast<A>(t0[k0].weight) * outer;
        }
        *y++ = static_cast<T>(sum);
      });
    }
  }

  template <class T>
  void spread(const T* g, T* dx, Accumulator<T>* sums) const {
    using A = Accumulator<T>;
    for (std::int64_t plane = 0; plane < planes_; ++plane, dx += plane_) {
      std::fill(sums, sums + plane_, A{0});
      for_each_output([&](const Tap* t0, const Tap* t1, const Tap* t2) {
        A gradient = static_cast<A>(*g++);
        for (std::size_t k0 = 0; k0 < axes_[0].per_output; ++k0) {
          for (std::size_t k1 = 0; k1 < axes_[1].per_output; ++k1) {
            A* row = sums + (t0[k0].index * axes_[1].in + t1[k1].index) * axes_[2].in;
            A share = gradient * static_cast<A>(t0[k0].weight) * static_cast<A>(t1[k1].weight);
            for (std::size_t k2 = 0; k2 < axes_[2].per_output; ++k2) {
              row[t2[k2].index] += share * static_cast<A>(t2[k2].weight);
            }
          }
        }
      });
      for (std::int64_t i = 0; i < plane_; ++i) dx[i] = static_cast<T>(sums[i]);
    }
  }

  DType dtype_;
  bool gradient_;
  std::int64_t planes_ = 0, plane_ = 1;  // N * C, and the elements of x in each
  AxisTaps axes_[kAxes];
};

}  // namespace

void register_resize_ref(KernelRegistry& kernels) {
  kernels.add("resize", [](const KernelRequest& request, std::string&) -> std::unique_ptr<Kernel> {
    return std::make_unique<ResizeKernel>(request, false);
  });
  kernels.add("resize_grad", [](const KernelRequest& request, std::string&) -> std::unique_ptr<Kernel> {
    return std::make_unique<ResizeKernel>(request, true);
  });
}

}  // namespace aspen
