// Rows and elements share one walk over the places an index names, planned when the kernel is made. Every index is
// checked before it is followed.
#include "aspen/ops/index/index.h"

#include <algorithm>
#include <cstring>

#include "aspen/backends/api/kernel.h"
#include "aspen/backends/reference/widen.h"
#include "aspen/ops/index/check_index.h"

namespace aspen {
namespace {

// Visits the other side (result of take and gather, update of scatter) in memory order, in runs of contiguous elements.
class IndexWalk {
 public:
  // take, scatter_rows: a run is the part of a row behind the axis.
  static IndexWalk rows(const KernelRequest& request, std::int64_t axis) {
    const Shape& x = request.inputs[0].type.shape;
    IndexWalk walk(request, axis);
    std::int64_t outer = numel(Shape(x.begin(), x.begin() + walk.axis_));
    walk.run_ = walk.axis_stride_;
    walk.axes_ = {{outer, 0, x[walk.axis_] * walk.axis_stride_}, {numel(walk.index_shape_), 1, 0}};
    return walk;
  }

  // gather, scatter: a run is one element.
  static IndexWalk elements(const KernelRequest& request, std::int64_t axis) {
    IndexWalk walk(request, axis);
    auto x_strides = contiguous_strides(request.inputs[0].type.shape);
    auto strides = contiguous_strides(walk.index_shape_);
    for (std::size_t i = 0; i < strides.size(); ++i) {
      bool along = static_cast<std::int64_t>(i) == walk.axis_;
      walk.axes_.push_back({walk.index_shape_[i], strides[i], along ? 0 : x_strides[i]});
    }
    return walk;
  }

  std::int64_t run() const { return run_; }

  // Calls f(place on the other side, place in x) for every run.
  template <class F>
  void for_each(const void* index, F&& f) const {
    std::int64_t other = 0;
    if (is_wide_) {
      walk(0, static_cast<const std::int64_t*>(index), 0, 0, other, f);
    } else {
      walk(0, static_cast<const std::int32_t*>(index), 0, 0, other, f);
    }
  }

 private:
  struct Axis {
    std::int64_t extent, index_stride, x_stride;
  };

  IndexWalk(const KernelRequest& request, std::int64_t axis)
      : op_(request.op), index_shape_(request.inputs[1].type.shape),
        is_wide_(request.inputs[1].type.dtype == DType::kI64) {
    const Shape& x = request.inputs[0].type.shape;
    axis_ = normalize_axis(axis, x, op_.c_str());
    size_ = x[axis_];
    axis_stride_ = contiguous_strides(x)[axis_];
  }

  template <class I, class F>
  void walk(std::size_t axis, const I* index, std::int64_t at, std::int64_t base, std::int64_t& other, F& f) const {
    const Axis& a = axes_[axis];
    bool last = axis + 1 == axes_.size();
    for (std::int64_t i = 0; i < a.extent; ++i, at += a.index_stride, base += a.x_stride) {
      if (last) {
        f(other, base + checked_index(index[at], size_, op_, at, index_shape_) * axis_stride_);
        other += run_;
      } else {
        walk(axis + 1, index, at, base, other, f);
      }
    }
  }

  std::string op_;
  Shape index_shape_;
  bool is_wide_;
  std::int64_t axis_ = 0, size_ = 0, axis_stride_ = 1, run_ = 1;
  std::vector<Axis> axes_;
};

class ReadKernel final : public Kernel {
 public:
  ReadKernel(const KernelRequest& request, IndexWalk walk)
      : walk_(std::move(walk)), size_(size_of(request.outputs[0].dtype)) {}

  void run(const KernelArgs& args) const override {
    const auto* x = static_cast<const std::byte*>(args.inputs[0]);
    auto* y = static_cast<std::byte*>(args.outputs[0]);
    auto size = static_cast<std::int64_t>(size_);
    std::size_t bytes = size_ * static_cast<std::size_t>(walk_.run());
    walk_.for_each(args.inputs[1],
                   [&](auto other, auto place) { std::memcpy(y + other * size, x + place * size, bytes); });
  }

 private:
  IndexWalk walk_;
  std::size_t size_;
};

enum class Mode { kSet, kAdd, kMul, kMax, kMin };

Mode mode_of(const std::string& name) {
  auto* found = std::find(std::begin(kScatterModes), std::end(kScatterModes), name);
  return static_cast<Mode>(found - std::begin(kScatterModes));
}

// NaN wins a maximum or minimum, as in torch.
template <class A>
A combined(Mode mode, A old, A update) {
  switch (mode) {
    case Mode::kSet: return update;
    case Mode::kAdd: return old + update;
    case Mode::kMul: return old * update;
    case Mode::kMax: return update > old || update != update ? update : old;
    case Mode::kMin: break;
  }
  return update < old || update != update ? update : old;
}

class WriteKernel final : public Kernel {
 public:
  WriteKernel(const KernelRequest& request, IndexWalk walk)
      : walk_(std::move(walk)), x_(request.inputs[0].type), mode_(mode_of(request.attrs.as<ScatterAttrs>().mode)) {}

  // Types narrower than their sums are combined in a wide copy of x and rounded once.
  std::size_t workspace_bytes() const override { return widened_bytes(x_); }

  void run(const KernelArgs& args) const override {
    dispatch(x_.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      using A = Accumulator<T>;
      auto n = x_.numel();
      const T* x = static_cast<const T*>(args.inputs[0]);
      T* y = static_cast<T*>(args.outputs[0]);
      if constexpr (std::is_same_v<T, A>) {
        if (x != y) std::copy(x, x + n, y);
        combine<T>(args, y);
      } else {
        A* sums = static_cast<A*>(args.workspace);
        for (std::int64_t i = 0; i < n; ++i) sums[i] = static_cast<A>(x[i]);
        combine<T>(args, sums);
        for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(sums[i]);
      }
    });
  }

 private:
  template <class T, class A>
  void combine(const KernelArgs& args, A* sums) const {
    const T* update = static_cast<const T*>(args.inputs[2]);
    walk_.for_each(args.inputs[1], [&](auto other, auto place) {
      for (std::int64_t i = 0; i < walk_.run(); ++i) {
        sums[place + i] = combined(mode_, sums[place + i], static_cast<A>(update[other + i]));
      }
    });
  }
  IndexWalk walk_;
  TensorType x_;
  Mode mode_;
};

void sum_rows(const KernelCall& call) {
  const Shape &x = call.in_type(0).shape, &y = call.out_type(0).shape;
  const std::int64_t columns = x[1], size = call.out_type(0).numel();
  const auto *from = call.in<std::int32_t>(1), *to = call.in<std::int32_t>(2);
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    A* sums = call.workspace<A>();
    std::fill(sums, sums + size, A{0});
    for (std::int64_t k = 0; k < call.in_type(1).numel(); ++k) {
      const T* row = call.in<T>(0) + checked_index(from[k], x[0], "sum_rows", k, call.in_type(1).shape) * columns;
      A* sum = sums + checked_index(to[k], y[0], "sum_rows", k, call.in_type(2).shape) * columns;
      for (std::int64_t i = 0; i < columns; ++i) sum[i] += static_cast<A>(row[i]);
    }
    for (std::int64_t i = 0; i < size; ++i) call.out<T>(0)[i] = static_cast<T>(sums[i]);
  });
}

std::size_t sum_rows_workspace(const KernelRequest& request) {
  return static_cast<std::size_t>(request.outputs[0].numel()) * sizeof(double);
}

void wrap_index(const KernelCall& call) {
  const std::int32_t* index = call.in<std::int32_t>(0);
  std::int32_t* wrapped = call.out<std::int32_t>(0);
  auto size = call.attrs<WrapIndexAttrs>().size;
  for (std::int64_t i = 0, n = call.in_type(0).numel(); i < n; ++i) {
    std::int64_t value = index[i];
    if (value < -size || value >= size) fail_index("wrap_index", value, i, call.in_type(0).shape, -size, size);
    wrapped[i] = static_cast<std::int32_t>(value < 0 ? value + size : value);
  }
}

// The number of elements that go before the value. A NaN goes after everything.
template <class T>
std::int64_t position(const T* row, std::int64_t n, T value, bool right) {
  std::int64_t low = 0, high = n;
  while (low < high) {
    std::int64_t middle = low + (high - low) / 2;
    bool before = right ? !(row[middle] > value) : !(row[middle] >= value);
    (before ? low : high) = before ? middle + 1 : middle;
  }
  return low;
}

void check_range(const KernelCall& call) {
  const auto& attrs = call.attrs<CheckRangeAttrs>();
  const std::int32_t* x = call.in<std::int32_t>(0);
  std::int32_t* y = call.out<std::int32_t>(0);
  for (std::int64_t i = 0, n = call.out_type(0).numel(); i < n; ++i) {
    if (x[i] < attrs.low || x[i] > attrs.high) {
      throw UserError("[{}] {} {}{} is out of range for {}; expected {} to {}.", attrs.who, attrs.what, x[i],
                      sample_and_position(call.in_type(0).shape, i), attrs.size, attrs.low, attrs.high);
    }
    y[i] = x[i];
  }
}

void searchsorted(const KernelCall& call) {
  const TensorType &sorted = call.in_type(0), &values = call.in_type(1);
  std::int64_t row = sorted.shape.back();
  // One row for all, or as many rows as there are lines of values.
  std::int64_t line = sorted.rank() == 1 ? values.numel() : values.shape.back();
  bool right = call.attrs<SearchsortedAttrs>().right;
  dispatch(sorted.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* v = call.in<T>(1);
    for (std::int64_t i = 0, n = values.numel(); i < n; ++i) {
      const T* from = call.in<T>(0) + i / line * row;
      call.out<std::int32_t>(0)[i] = static_cast<std::int32_t>(position(from, row, v[i], right));
    }
  });
}

template <class K, class A>
KernelFactory factory(IndexWalk (*walk)(const KernelRequest&, std::int64_t)) {
  return [walk](const KernelRequest& request, std::string&) -> std::unique_ptr<Kernel> {
    return std::make_unique<K>(request, walk(request, request.attrs.as<A>().axis));
  };
}

}  // namespace

void register_index_ref(KernelRegistry& kernels) {
  kernels.add("take", factory<ReadKernel, TakeAttrs>(IndexWalk::rows));
  kernels.add("gather", factory<ReadKernel, GatherAttrs>(IndexWalk::elements));
  kernels.add("scatter", factory<WriteKernel, ScatterAttrs>(IndexWalk::elements));
  kernels.add("scatter_rows", factory<WriteKernel, ScatterAttrs>(IndexWalk::rows));
  kernels.add("sum_rows", sum_rows, sum_rows_workspace);
  kernels.add("wrap_index", wrap_index);
  kernels.add("check_range", check_range);
  kernels.add("searchsorted", searchsorted);
}

}  // namespace aspen
