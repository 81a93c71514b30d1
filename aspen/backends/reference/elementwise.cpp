#include "aspen/backends/reference/elementwise.h"

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/api/strided_rows.h"

namespace aspen {
namespace {

// The entry for arithmetic in type A.
template <class A, class Functions>
auto pick(const Functions& functions) {
  if constexpr (std::is_same_v<A, float>) {
    return functions.f32;
  } else if constexpr (std::is_same_v<A, double>) {
    return functions.f64;
  } else {
    return functions.i32;
  }
}

std::unique_ptr<Kernel> decline(const KernelRequest& request, std::string& why) {
  why += fmt::format("\"{}\" does not take {}", request.op, name_of(request.inputs[0].type.dtype));
  return nullptr;
}

template <class T, class Out, class F>
std::unique_ptr<Kernel> unary_kernel(const KernelRequest& request, F f) {
  return make_kernel([f, n = request.outputs[0].numel()](const KernelArgs& args) {
    const T* x = static_cast<const T*>(args.inputs[0]);
    Out* y = static_cast<Out*>(args.outputs[0]);
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<Out>(f(static_cast<Accumulator<T>>(x[i])));
  });
}

template <class T, class Out, class F>
std::unique_ptr<Kernel> binary_kernel(const KernelRequest& request, F f) {
  using A = Accumulator<T>;
  auto rows =
      broadcast_rows<2>(request.outputs[0].shape, {&request.inputs[0].type.shape, &request.inputs[1].type.shape});
  return make_kernel([f, rows](const KernelArgs& args) {
    rows.for_each_row([&](std::int64_t first, const auto& offsets) {
      const T* x = static_cast<const T*>(args.inputs[0]) + offsets[0];
      const T* y = static_cast<const T*>(args.inputs[1]) + offsets[1];
      Out* z = static_cast<Out*>(args.outputs[0]) + first;
      auto [dx, dy] = rows.strides();
      for (std::int64_t i = 0; i < rows.row_size(); ++i) {
        z[i] = static_cast<Out>(f(static_cast<A>(x[i * dx]), static_cast<A>(y[i * dy])));
      }
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_unary(const KernelRequest& request, const UnaryFunctions& functions, std::string& why) {
  return dispatch(request.inputs[0].type.dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    auto f = pick<Accumulator<T>>(functions);
    if (f == nullptr) return decline(request, why);
    if (request.outputs[0].dtype == DType::kBool) return unary_kernel<T, bool>(request, f);
    return unary_kernel<T, T>(request, f);
  });
}

std::unique_ptr<Kernel> make_binary(const KernelRequest& request, const BinaryFunctions& functions, std::string& why) {
  return dispatch(request.inputs[0].type.dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    auto f = pick<Accumulator<T>>(functions);
    if (f == nullptr) return decline(request, why);
    if (request.outputs[0].dtype == DType::kBool) return binary_kernel<T, bool>(request, f);
    return binary_kernel<T, T>(request, f);
  });
}

void add_unary(KernelRegistry& kernels, std::string_view op, const UnaryFunctions& functions) {
  kernels.add(op, KernelFactory([functions](const KernelRequest& request, std::string& why) {
                return make_unary(request, functions, why);
              }));
}

void add_binary(KernelRegistry& kernels, std::string_view op, const BinaryFunctions& functions) {
  kernels.add(op, KernelFactory([functions](const KernelRequest& request, std::string& why) {
                return make_binary(request, functions, why);
              }));
}

}  // namespace aspen
