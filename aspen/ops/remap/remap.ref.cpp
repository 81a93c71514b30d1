// The lists are made with the kernel; running it walks the result and follows them.
#include "aspen/ops/remap/remap.h"

#include <algorithm>

#include "aspen/backends/api/kernel.h"
#include "aspen/ops/remap/places.h"

namespace aspen {
namespace {

class RemapKernel : public Kernel {
 public:
  RemapKernel(const KernelRequest& request, const Shape& x)
      : dtype_(request.outputs[0].dtype), size_(numel(x)), places_(remap_places(request.attrs.as<RemapAttrs>(), x)),
        strides_(contiguous_strides(x)) {}

 protected:
  // Calls f(place in x) for every element of the result in order; -1: none.
  template <class F>
  void for_each(F&& f) const {
    walk(0, 0, f);
  }

  DType dtype_;
  std::int64_t size_;

 private:
  template <class F>
  void walk(std::size_t axis, std::int64_t from, F& f) const {
    if (axis == places_.size()) return f(from);
    for (std::int64_t place : places_[axis])
      walk(axis + 1, from < 0 || place < 0 ? -1 : from + place * strides_[axis], f);
  }

  std::vector<AxisPlaces> places_;
  std::vector<std::int64_t> strides_;
};

class Forward final : public RemapKernel {
 public:
  explicit Forward(const KernelRequest& request) : RemapKernel(request, request.inputs[0].type.shape) {}

  void run(const KernelArgs& args) const override {
    dispatch_stored(dtype_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* x = static_cast<const T*>(args.inputs[0]);
      T* y = static_cast<T*>(args.outputs[0]);
      for_each([&](std::int64_t from) { *y++ = from < 0 ? T{} : x[from]; });
    });
  }
};

class Gradient final : public RemapKernel {
 public:
  explicit Gradient(const KernelRequest& request) : RemapKernel(request, request.outputs[0].shape) {}

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(size_) * sizeof(double); }

  void run(const KernelArgs& args) const override {
    dispatch_floating(dtype_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      using A = Accumulator<T>;
      const T* g = static_cast<const T*>(args.inputs[0]);
      T* dx = static_cast<T*>(args.outputs[0]);
      A* sums = static_cast<A*>(args.workspace);
      std::fill(sums, sums + size_, A{0});
      for_each([&](std::int64_t from) {
        A share = static_cast<A>(*g++);
        if (from >= 0) sums[from] += share;
      });
      for (std::int64_t i = 0; i < size_; ++i) dx[i] = static_cast<T>(sums[i]);
    });
  }
};

}  // namespace

void register_remap_ref(KernelRegistry& kernels) {
  kernels.add("remap", [](const KernelRequest& request, std::string&) -> std::unique_ptr<Kernel> {
    return std::make_unique<Forward>(request);
  });
  kernels.add("remap_grad", [](const KernelRequest& request, std::string&) -> std::unique_ptr<Kernel> {
    return std::make_unique<Gradient>(request);
  });
}

}  // namespace aspen
