#include "aspen/ops/reduce/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/api/strided_rows.h"

namespace aspen {
namespace {

// Sums and products: double for floats, so that the reference is exact to the last bit or so; integers without a
// sign, where wrapping is defined.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, std::uint32_t, double>;

struct Sum {
  template <class T>
  using Type = Wide<T>;
  template <class T>
  static Type<T> start() {
    return 0;
  }
  template <class A>
  static A add(A sum, A x) {
    return sum + x;
  }
};
struct Product {
  template <class T>
  using Type = Wide<T>;
  template <class T>
  static Type<T> start() {
    return 1;
  }
  template <class A>
  static A add(A product, A x) {
    return product * x;
  }
};

template <class T>
constexpr T lowest() {
  return std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
}
template <class T>
constexpr T highest() {
  return std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
}

// x != x: NaN wins. bool starts from false and true, which makes them any and all.
struct Max {
  template <class T>
  using Type = Accumulator<T>;
  template <class T>
  static Type<T> start() {
    return std::is_same_v<T, bool> ? Type<T>(0) : lowest<Type<T>>();
  }
  template <class A>
  static A add(A best, A x) {
    return x > best || x != x ? x : best;
  }
};
struct Min {
  template <class T>
  using Type = Accumulator<T>;
  template <class T>
  static Type<T> start() {
    return std::is_same_v<T, bool> ? Type<T>(1) : highest<Type<T>>();
  }
  template <class A>
  static A add(A best, A x) {
    return x < best || x != x ? x : best;
  }
};

// One walk over the kept axes (in the order of the output), one over the reduced axes.
struct ReductionPlan {
  StridedRows<1> kept, reduced;

  ReductionPlan(const Shape& shape, const std::vector<std::int64_t>& axes) {
    std::vector<std::int64_t> strides = contiguous_strides(shape);
    Shape extents[2];
    std::array<std::vector<std::int64_t>, 1> chosen[2];
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(shape.size()); ++i) {
      bool is_reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
      extents[is_reduced].push_back(shape[i]);
      chosen[is_reduced][0].push_back(strides[i]);
    }
    kept = StridedRows<1>(extents[0], chosen[0]);
    reduced = StridedRows<1>(extents[1], chosen[1]);
  }

  // Calls f(output place, input offset) for every output.
  template <class F>
  void for_each_output(F&& f) const {
    kept.for_each_row([&](std::int64_t first, const auto& offsets) {
      for (std::int64_t i = 0; i < kept.row_size(); ++i) f(first + i, offsets[0] + i * kept.strides()[0]);
    });
  }

  // Calls f(input offset) for every element that falls on the output at `base`.
  template <class F>
  void for_each_element(std::int64_t base, F&& f) const {
    reduced.for_each_row([&](std::int64_t, const auto& offsets) {
      for (std::int64_t i = 0; i < reduced.row_size(); ++i) f(base + offsets[0] + i * reduced.strides()[0]);
    });
  }
};

template <class Reduction, class T>
std::unique_ptr<Kernel> reduction_kernel(const ReductionPlan& plan) {
  using A = typename Reduction::template Type<T>;
  return make_kernel([plan](const KernelArgs& args) {
    const T* x = static_cast<const T*>(args.inputs[0]);
    T* y = static_cast<T*>(args.outputs[0]);
    plan.for_each_output([&](std::int64_t place, std::int64_t base) {
      A result = Reduction::template start<T>();
      plan.for_each_element(base, [&](std::int64_t i) { result = Reduction::add(result, static_cast<A>(x[i])); });
      y[place] = static_cast<T>(result);
    });
  });
}

template <class Reduction>
void add_reduction(KernelRegistry& kernels, std::string_view op) {
  kernels.add(op, KernelFactory([](const KernelRequest& request, std::string&) {
                ReductionPlan plan(request.inputs[0].type.shape, request.attrs.as<ReduceAttrs>().axes);
                return dispatch(request.inputs[0].type.dtype, [&](auto tag) {
                  return reduction_kernel<Reduction, typename decltype(tag)::type>(plan);
                });
              }));
}

// Product of the others, by counting zeros: none: product / x; one: only it sees the product of the rest; more: 0.
template <class T>
std::unique_ptr<Kernel> prod_grad_kernel(const ReductionPlan& plan) {
  return make_kernel([plan](const KernelArgs& args) {
    const T* x = static_cast<const T*>(args.inputs[0]);
    const T* g = static_cast<const T*>(args.inputs[1]);
    T* dx = static_cast<T*>(args.outputs[0]);
    plan.for_each_output([&](std::int64_t place, std::int64_t base) {
      double product = 1;
      std::int64_t zeros = 0;
      plan.for_each_element(base, [&](std::int64_t i) {
        if (x[i] == T(0)) {
          ++zeros;
        } else {
          product *= static_cast<double>(x[i]);
        }
      });
      plan.for_each_element(base, [&](std::int64_t i) {
        double others = zeros == 0 ? product / static_cast<double>(x[i]) : zeros == 1 && x[i] == T(0) ? product : 0;
        dx[i] = static_cast<T>(static_cast<double>(g[place]) * others);
      });
    });
  });
}

std::unique_ptr<Kernel> make_prod_grad(const KernelRequest& request, std::string&) {
  ReductionPlan plan(request.inputs[0].type.shape, request.attrs.as<ReduceAttrs>().axes);
  return dispatch_floating(request.inputs[0].type.dtype,
                           [&](auto tag) { return prod_grad_kernel<typename decltype(tag)::type>(plan); });
}

void argreduce(const KernelCall& call) {
  const auto& attrs = call.attrs<ArgReduceAttrs>();
  AxisLines lines(call.in_type(0).shape, attrs.axis, "argreduce");
  dispatch(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const T* x = call.in<T>(0);
    std::int32_t* index = call.out<std::int32_t>(0);
    lines.for_each([&](std::int64_t line, std::int64_t base) {
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < lines.size; ++k) {
        A candidate = static_cast<A>(x[base + k * lines.inner]),
          champion = static_cast<A>(x[base + best * lines.inner]);
        if (champion != champion) break;  // the first NaN wins
        if (candidate != candidate || (attrs.max ? candidate > champion : candidate < champion)) best = k;
      }
      index[line] = static_cast<std::int32_t>(best);
    });
  });
}

void cumsum(const KernelCall& call) {
  const auto& attrs = call.attrs<ScanAttrs>();
  AxisLines lines(call.in_type(0).shape, attrs.axis, "cumsum");
  dispatch(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = call.in<T>(0);
    T* y = call.out<T>(0);
    lines.for_each([&](std::int64_t, std::int64_t base) {
      Wide<T> sum = 0;
      for (std::int64_t k = 0; k < lines.size; ++k) {
        std::int64_t i = base + (attrs.reverse ? lines.size - 1 - k : k) * lines.inner;
        auto before = sum;
        sum += static_cast<Wide<T>>(x[i]);
        y[i] = static_cast<T>(attrs.exclusive ? before : sum);
      }
    });
  });
}

void cumprod(const KernelCall& call) {
  AxisLines lines(call.in_type(0).shape, call.attrs<ScanAttrs>().axis, "cumprod");
  dispatch(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = call.in<T>(0);
    T* y = call.out<T>(0);
    lines.for_each([&](std::int64_t, std::int64_t base) {
      Wide<T> product = 1;
      for (std::int64_t k = 0; k < lines.size; ++k) {
        product *= static_cast<Wide<T>>(x[base + k * lines.inner]);
        y[base + k * lines.inner] = static_cast<T>(product);
      }
    });
  });
}

void cumprod_grad(const KernelCall& call) {
  AxisLines lines(call.in_type(0).shape, call.attrs<ScanAttrs>().axis, "cumprod_grad");
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = call.in<T>(0);
    const T* y = call.in<T>(1);
    const T* g = call.in<T>(2);
    T* dx = call.out<T>(0);
    lines.for_each([&](std::int64_t, std::int64_t base) {
      double tail = 0, next = 0;  // s[k+1] and x[k+1]
      for (std::int64_t k = lines.size; k-- > 0;) {
        std::int64_t i = base + k * lines.inner;
        tail = static_cast<double>(g[i]) + next * tail;
        next = static_cast<double>(x[i]);
        dx[i] = static_cast<T>((k > 0 ? static_cast<double>(y[i - lines.inner]) : 1.0) * tail);
      }
    });
  });
}

}  // namespace

void register_reduce_ref(KernelRegistry& kernels) {
  add_reduction<Sum>(kernels, "reduce_sum");
  add_reduction<Product>(kernels, "reduce_prod");
  add_reduction<Max>(kernels, "reduce_max");
  add_reduction<Min>(kernels, "reduce_min");
  kernels.add("reduce_prod_grad", KernelFactory(make_prod_grad));
  kernels.add("argreduce", argreduce);
  kernels.add("cumsum", cumsum);
  kernels.add("cumprod", cumprod);
  kernels.add("cumprod_grad", cumprod_grad);
}

}  // namespace aspen
