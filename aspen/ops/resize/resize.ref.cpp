// The taps of every output position are listed per axis when the kernel is made; running it is a weighted sum over
// their products, or the same loop turned round for the gradient. Fewer than three spatial axes are padded with leading
// axes of extent 1. Coordinates are float, as in ATen, so that both round to the same element.
#include "aspen/ops/resize/resize.h"

#include <algorithm>
#include <cmath>

#include "aspen/backends/api/kernel.h"

namespace aspen {
namespace {

constexpr int kAxes = 3;

struct Tap {
  std::int64_t index;
  float weight;
};

// The taps of output positions 0, 1, ... one after the other, equally many for each.
struct AxisTaps {
  std::int64_t in = 1;
  std::size_t per_output = 1;
  std::vector<Tap> taps{{0, 1.0f}};
  std::size_t num_outputs() const { return taps.size() / per_output; }
};

// Keys 1981, with the parameter A = -0.75.
void add_cubic_taps(std::vector<Tap>& taps, float position, std::int64_t in) {
  constexpr float kA = -0.75f;
  auto near = [](float d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };         // d <= 1
  auto far = [](float d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };  // 1 < d < 2
  auto base = static_cast<std::int64_t>(std::floor(position));
  float t = position - static_cast<float>(base);
  const float weights[] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
  for (std::int64_t k = 0; k < 4; ++k) {
    taps.push_back({std::clamp<std::int64_t>(base + k - 1, 0, in - 1), weights[k]});
  }
}

AxisTaps axis_taps(const ResizeAttrs& attrs, std::size_t axis, std::int64_t in) {
  AxisTaps result{in, 1, {}};
  auto step = static_cast<float>(attrs.scales[axis]);
  auto at_most_last = [&](float position) { return std::min(static_cast<std::int64_t>(std::floor(position)), in - 1); };
  for (std::int64_t i = 0; i < attrs.size[axis]; ++i) {
    if (attrs.mode == "nearest") {
      result.taps.push_back({at_most_last(static_cast<float>(i) * step), 1});
      continue;
    }
    if (attrs.mode == "nearest_exact") {
      result.taps.push_back({at_most_last((static_cast<float>(i) + 0.5f) * step), 1});
      continue;
    }
    auto place = static_cast<float>(i);
    float position = attrs.align_corners ? step * place : step * (place + 0.5f) - 0.5f;
    if (attrs.mode == "cubic") {
      result.per_output = 4;
      add_cubic_taps(result.taps, position, in);
      continue;
    }
    result.per_output = 2;
    // An axis that keeps its extent is copied, whatever step was asked for.
    if (attrs.size[axis] == in) position = place;
    position = std::max(position, 0.0f);
    std::int64_t first = at_most_last(position);
    float second_weight = std::min(position - static_cast<float>(first), 1.0f);
    result.taps.push_back({first, 1 - second_weight});
    result.taps.push_back({std::min(first + 1, in - 1), second_weight});
  }
  return result;
}

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
