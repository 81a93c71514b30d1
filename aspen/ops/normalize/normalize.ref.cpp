// Sums are kept in double: a batch norm may add up a million elements, and this is what others are held against.
#include "aspen/ops/normalize/normalize.h"

#include <algorithm>
#include <cmath>

#include "aspen/backends/api/kernel.h"

namespace aspen {
namespace {

// Walks x in memory order and says which statistic each element belongs to.
class StatisticWalk {
 public:
  StatisticWalk(const Shape& shape, const std::vector<std::int64_t>& axes) {
    Shape reduced = shape;
    for (auto axis : axes) reduced[axis] = 1;
    count_ = numel(reduced);
    auto strides = contiguous_strides(reduced);
    for (std::size_t i = 0; i < shape.size(); ++i) {
      Axis axis{shape[i], reduced[i] == shape[i] ? strides[i] : 0};
      if (!axes_.empty() && axes_.back().stride == axis.stride * axis.extent) {
        axes_.back() = {axes_.back().extent * axis.extent, axis.stride};
      } else {
        axes_.push_back(axis);
      }
    }
    if (axes_.empty()) axes_.push_back({1, 0});
  }

  std::int64_t count() const { return count_; }

  // Calls f(element, statistic) for every element.
  template <class F>
  void for_each(F&& f) const {
    std::int64_t element = 0;
    walk(0, element, 0, f);
  }

 private:
  struct Axis {
    std::int64_t extent, stride;
  };
  template <class F>
  void walk(std::size_t axis, std::int64_t& element, std::int64_t statistic, F& f) const {
    const Axis& a = axes_[axis];
    if (axis + 1 < axes_.size()) {
      for (std::int64_t i = 0; i < a.extent; ++i) walk(axis + 1, element, statistic + i * a.stride, f);
    } else {
      for (std::int64_t i = 0; i < a.extent; ++i) f(element++, statistic + i * a.stride);
    }
  }

  std::int64_t count_ = 0;
  std::vector<Axis> axes_;
};

class NormalizeKernel : public Kernel {
 public:
  explicit NormalizeKernel(const KernelRequest& request)
      : dtype_(request.inputs[0].type.dtype), epsilon_(request.attrs.as<NormalizeAttrs>().epsilon),
        walk_(request.inputs[0].type.shape, request.attrs.as<NormalizeAttrs>().axes),
        per_statistic_(static_cast<double>(request.inputs[0].type.numel()) / static_cast<double>(walk_.count())) {}

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(2 * walk_.count()) * sizeof(double); }

 protected:
  DType dtype_;
  double epsilon_;
  StatisticWalk walk_;
  double per_statistic_;
};

class Forward final : public NormalizeKernel {
 public:
  using NormalizeKernel::NormalizeKernel;
  void run(const KernelArgs& args) const override {
    dispatch_floating(dtype_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      using S = Accumulator<T>;
      const T* x = static_cast<const T*>(args.inputs[0]);
      T* y = static_cast<T*>(args.outputs[0]);
      S *mean_out = static_cast<S*>(args.outputs[1]), *rstd_out = static_cast<S*>(args.outputs[2]);
      double* mean = static_cast<double*>(args.workspace);
      double* rstd = mean + walk_.count();
      std::fill(mean, mean + 2 * walk_.count(), 0.0);
      walk_.for_each([&](auto i, auto s) { mean[s] += static_cast<double>(x[i]); });
      for (std::int64_t s = 0; s < walk_.count(); ++s) mean[s] /= per_statistic_;
      walk_.for_each([&](auto i, auto s) {
        double d = static_cast<double>(x[i]) - mean[s];
        rstd[s] += d * d;
      });
      for (std::int64_t s = 0; s < walk_.count(); ++s) {
        rstd[s] = 1 / std::sqrt(rstd[s] / per_statistic_ + epsilon_);
        mean_out[s] = static_cast<S>(mean[s]);
        rstd_out[s] = static_cast<S>(rstd[s]);
      }
      walk_.for_each([&](auto i, auto s) { y[i] = static_cast<T>((static_cast<double>(x[i]) - mean[s]) * rstd[s]); });
    });
  }
};

class Gradient final : public NormalizeKernel {
 public:
  using NormalizeKernel::NormalizeKernel;
  void run(const KernelArgs& args) const override {
    dispatch_floating(dtype_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      using S = Accumulator<T>;
      const T* y = static_cast<const T*>(args.inputs[0]);
      const S* rstd = static_cast<const S*>(args.inputs[1]);
      const T* g = static_cast<const T*>(args.inputs[2]);
      T* dx = static_cast<T*>(args.outputs[0]);
      double* mean_g = static_cast<double*>(args.workspace);
      double* mean_gy = mean_g + walk_.count();
      std::fill(mean_g, mean_g + 2 * walk_.count(), 0.0);
      walk_.for_each([&](auto i, auto s) {
        mean_g[s] += static_cast<double>(g[i]);
        mean_gy[s] += static_cast<double>(g[i]) * static_cast<double>(y[i]);
      });
      for (std::int64_t s = 0; s < 2 * walk_.count(); ++s) mean_g[s] /= per_statistic_;
      walk_.for_each([&](auto i, auto s) {
        double centred = static_cast<double>(g[i]) - mean_g[s] - static_cast<double>(y[i]) * mean_gy[s];
        dx[i] = static_cast<T>(static_cast<double>(rstd[s]) * centred);
      });
    });
  }
};

}  // namespace

void register_normalize_ref(KernelRegistry& kernels) {
  kernels.add("normalize", [](const KernelRequest& request, std::string&) -> std::unique_ptr<Kernel> {
    return std::make_unique<Forward>(request);
  });
  kernels.add("normalize_grad", [](const KernelRequest& request, std::string&) -> std::unique_ptr<Kernel> {
    return std::make_unique<Gradient>(request);
  });
}

}  // namespace aspen
