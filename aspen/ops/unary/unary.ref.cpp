#include "aspen/ops/unary/unary.h"

#include <cmath>
#include <numbers>

#include "aspen/backends/api/convert.h"
#include "aspen/backends/api/special_math.h"
#include "aspen/backends/reference/elementwise.h"

namespace aspen {
namespace {

template <class F>
UnaryFunctions floating(F f) {
  return for_floating<UnaryFunctions>(f);
}
template <class F>
UnaryFunctions all(F f) {
  return for_all<UnaryFunctions>(f);
}

// Roundings leave integers as they are.
template <class F>
UnaryFunctions rounding(F f) {
  UnaryFunctions functions = floating(f);
  functions.i32 = [](std::int32_t x) { return x; };
  return functions;
}

// Floats are asked, integers are always finite.
template <class F>
UnaryFunctions question(F f, bool for_integers) {
  UnaryFunctions functions = floating(f);
  if (for_integers) {
    functions.i32 = [](std::int32_t) { return 1; };
  } else {
    functions.i32 = [](std::int32_t) { return 0; };
  }
  return functions;
}

// In unsigned arithmetic, where INT_MIN wraps to itself.
template <class T>
T negated(T x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(0u - static_cast<std::uint32_t>(x));
  } else {
    return -x;
  }
}

template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}

// From 0 at -3 to 1 at 3; NaN stays.
template <class T>
T hardsigmoid(T x) {
  return x < -3 ? T(0) : x > 3 ? T(1) : (x + 3) * T(1.0 / 6);
}

void register_plain(KernelRegistry& kernels) {
  add_unary(kernels, "neg", all([]<class T>(T x) -> T { return negated(x); }));
  UnaryFunctions abs = floating([]<class T>(T x) -> T { return std::fabs(x); });
  abs.i32 = [](std::int32_t x) { return x < 0 ? negated(x) : x; };
  add_unary(kernels, "abs", abs);
  add_unary(kernels, "sign", all([]<class T>(T x) -> T { return static_cast<T>((x > 0) - (x < 0)); }));
  add_unary(kernels, "floor", rounding([]<class T>(T x) -> T { return std::floor(x); }));
  add_unary(kernels, "ceil", rounding([]<class T>(T x) -> T { return std::ceil(x); }));
  add_unary(kernels, "round", rounding([]<class T>(T x) -> T { return std::nearbyint(x); }));
  add_unary(kernels, "trunc", rounding([]<class T>(T x) -> T { return std::trunc(x); }));
  add_unary(kernels, "relu", all([]<class T>(T x) -> T { return x < 0 ? T(0) : x; }));
}

void register_transcendental(KernelRegistry& kernels) {
  add_unary(kernels, "exp", floating([]<class T>(T x) -> T { return std::exp(x); }));
  add_unary(kernels, "expm1", floating([]<class T>(T x) -> T { return std::expm1(x); }));
  add_unary(kernels, "log", floating([]<class T>(T x) -> T { return std::log(x); }));
  add_unary(kernels, "log1p", floating([]<class T>(T x) -> T { return std::log1p(x); }));
  add_unary(kernels, "sqrt", floating([]<class T>(T x) -> T { return std::sqrt(x); }));
  add_unary(kernels, "rsqrt", floating([]<class T>(T x) -> T { return 1 / std::sqrt(x); }));
  add_unary(kernels, "reciprocal", floating([]<class T>(T x) -> T { return 1 / x; }));
  add_unary(kernels, "sin", floating([]<class T>(T x) -> T { return std::sin(x); }));
  add_unary(kernels, "cos", floating([]<class T>(T x) -> T { return std::cos(x); }));
  add_unary(kernels, "tan", floating([]<class T>(T x) -> T { return std::tan(x); }));
  add_unary(kernels, "asin", floating([]<class T>(T x) -> T { return std::asin(x); }));
  add_unary(kernels, "acos", floating([]<class T>(T x) -> T { return std::acos(x); }));
  add_unary(kernels, "atan", floating([]<class T>(T x) -> T { return std::atan(x); }));
  add_unary(kernels, "sinh", floating([]<class T>(T x) -> T { return std::sinh(x); }));
  add_unary(kernels, "cosh", floating([]<class T>(T x) -> T { return std::cosh(x); }));
  add_unary(kernels, "asinh", floating([]<class T>(T x) -> T { return std::asinh(x); }));
  add_unary(kernels, "acosh", floating([]<class T>(T x) -> T { return std::acosh(x); }));
  add_unary(kernels, "atanh", floating([]<class T>(T x) -> T { return std::atanh(x); }));
  add_unary(kernels, "tanh", floating([]<class T>(T x) -> T { return std::tanh(x); }));
  add_unary(kernels, "sigmoid", floating([]<class T>(T x) -> T { return sigmoid(x); }));
  add_unary(kernels, "silu", floating([]<class T>(T x) -> T { return x / (1 + std::exp(-x)); }));
  add_unary(kernels, "hardsigmoid", floating([]<class T>(T x) -> T { return hardsigmoid(x); }));
  add_unary(kernels, "hardswish", floating([]<class T>(T x) -> T { return x * hardsigmoid(x); }));
  add_unary(kernels, "erf", floating([]<class T>(T x) -> T { return std::erf(x); }));
  add_unary(kernels, "erfc", floating([]<class T>(T x) -> T { return std::erfc(x); }));
  add_unary(kernels, "erfinv", floating([]<class T>(T x) -> T { return static_cast<T>(erfinv(x)); }));
  add_unary(kernels, "lgamma", floating([]<class T>(T x) -> T { return log_gamma(x); }));
  add_unary(kernels, "digamma", floating([]<class T>(T x) -> T { return static_cast<T>(digamma(x)); }));
  add_unary(kernels, "trigamma", floating([]<class T>(T x) -> T { return static_cast<T>(trigamma(x)); }));
}

void register_questions(KernelRegistry& kernels) {
  add_unary(kernels, "isnan", question([]<class T>(T x) -> T { return std::isnan(x); }, false));
  add_unary(kernels, "isinf", question([]<class T>(T x) -> T { return std::isinf(x); }, false));
  add_unary(kernels, "isfinite", question([]<class T>(T x) -> T { return std::isfinite(x); }, true));
  UnaryFunctions signbit = floating([]<class T>(T x) -> T { return std::signbit(x); });
  signbit.i32 = [](std::int32_t x) -> std::int32_t { return x < 0; };
  add_unary(kernels, "signbit", signbit);
  UnaryFunctions logical_not = all([]<class T>(T x) -> T { return static_cast<T>(x == 0); });
  add_unary(kernels, "logical_not", logical_not);
  kernels.add("bitwise_not", KernelFactory([logical_not](const KernelRequest& request, std::string& why) {
                bool is_bool = request.inputs[0].type.dtype == DType::kBool;
                auto inverted = for_integers<UnaryFunctions>([](std::int32_t x) { return ~x; });
                return make_unary(request, is_bool ? logical_not : inverted, why);
              }));
}

// y = f(x) and dx = f(x, g) for ops whose attributes f captured.
template <class T, class F>
void map(const KernelCall& call, F f) {
  for (std::int64_t i = 0; i < call.out_type(0).numel(); ++i) {
    call.out<T>(0)[i] = static_cast<T>(f(static_cast<Accumulator<T>>(call.in<T>(0)[i])));
  }
}
template <class T, class F>
void map_gradient(const KernelCall& call, F f) {
  using A = Accumulator<T>;
  for (std::int64_t i = 0; i < call.out_type(0).numel(); ++i) {
    call.out<T>(0)[i] = static_cast<T>(f(static_cast<A>(call.in<T>(0)[i]), static_cast<A>(call.in<T>(1)[i])));
  }
}

// u(x) = sqrt(2 / pi) * (x + 0.044715 x^3), inside the tanh of the approximate gelu.
constexpr double kGeluScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
constexpr double kGeluCubic = 0.044715;

void gelu(const KernelCall& call) {
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    if (call.attrs<GeluAttrs>().tanh) {
      return map<T>(call,
                    [](A x) { return A(0.5) * x * (1 + std::tanh(A(kGeluScale) * (x + A(kGeluCubic) * x * x * x))); });
    }
    map<T>(call, [](A x) { return A(0.5) * x * (1 + std::erf(x * A(1 / std::numbers::sqrt2))); });
  });
}

// erf: g * (Phi(x) + x phi(x));  tanh: g * ((1 + t) / 2 + x (1 - t^2) u'(x) / 2)
void gelu_grad(const KernelCall& call) {
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    if (call.attrs<GeluAttrs>().tanh) {
      return map_gradient<T>(call, [](A x, A g) {
        A t = std::tanh(A(kGeluScale) * (x + A(kGeluCubic) * x * x * x));
        A slope = A(kGeluScale) * (1 + 3 * A(kGeluCubic) * x * x);
        return g * (A(0.5) * (1 + t) + A(0.5) * x * (1 - t * t) * slope);
      });
    }
    map_gradient<T>(call, [](A x, A g) {
      A below = A(0.5) * (1 + std::erf(x * A(1 / std::numbers::sqrt2)));
      A density = std::exp(A(-0.5) * x * x) * A(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
      return g * (below + x * density);
    });
  });
}

void softplus(const KernelCall& call) {
  const auto& attrs = call.attrs<SoftplusAttrs>();
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    map<T>(call, [beta = A(attrs.beta), threshold = A(attrs.threshold)](A x) {
      return x * beta > threshold ? x : std::log1p(std::exp(x * beta)) / beta;
    });
  });
}

void softplus_grad(const KernelCall& call) {
  const auto& attrs = call.attrs<SoftplusAttrs>();
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    map_gradient<T>(call, [beta = A(attrs.beta), threshold = A(attrs.threshold)](A x, A g) {
      return x * beta > threshold ? g : g * sigmoid(x * beta);
    });
  });
}

void leaky_relu(const KernelCall& call) {
  const auto& attrs = call.attrs<LeakyReluAttrs>();
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    map<T>(call, [slope = A(attrs.slope)](A x) { return x > 0 ? x : x * slope; });
  });
}

void leaky_relu_grad(const KernelCall& call) {
  const auto& attrs = call.attrs<LeakyReluAttrs>();
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    map_gradient<T>(call, [slope = A(attrs.slope)](A x, A g) { return x > 0 ? g : g * slope; });
  });
}

// Comparisons are written so that NaN elements stay; a NaN bound makes everything NaN, as in PyTorch.
void clamp(const KernelCall& call) {
  auto [low, high, open] = call.attrs<ClampAttrs>();
  dispatch(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    // Integers compare with the bounds in double, which holds every int32.
    using A = std::conditional_t<std::is_integral_v<T>, double, Accumulator<T>>;
    A least = static_cast<A>(low), most = static_cast<A>(high);
    for (std::int64_t i = 0; i < call.out_type(0).numel(); ++i) {
      A x = static_cast<A>(call.in<T>(0)[i]);
      x = x < least || std::isnan(least) ? least : x;
      x = x > most || std::isnan(most) ? most : x;
      call.out<T>(0)[i] = convert<T>(x);
    }
  });
}

void clamp_grad(const KernelCall& call) {
  const auto& attrs = call.attrs<ClampAttrs>();
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    map_gradient<T>(call, [low = A(attrs.low), high = A(attrs.high), open = attrs.open](A x, A g) {
      if (open) return x <= low || x >= high ? A(0) : g;
      return x >= low && x <= high ? g : A(0);
    });
  });
}

void register_gradients(KernelRegistry& kernels) {
  auto floating = [](auto f) { return for_floating<BinaryFunctions>(f); };
  // A NaN output lets the gradient through, as in PyTorch.
  add_binary(kernels, "relu_grad", floating([]<class T>(T y, T g) -> T { return y <= 0 ? T(0) : g; }));
  add_binary(kernels, "tanh_grad", floating([]<class T>(T y, T g) -> T { return g * (1 - y * y); }));
  add_binary(kernels, "sigmoid_grad", floating([]<class T>(T y, T g) -> T { return g * (1 - y) * y; }));
  add_binary(kernels, "silu_grad", floating([]<class T>(T x, T g) -> T {
               T s = sigmoid(x);
               return g * s * (1 + x * (1 - s));
             }));
  add_binary(kernels, "hardsigmoid_grad",
             floating([]<class T>(T x, T g) -> T { return x > -3 && x < 3 ? g * T(1.0 / 6) : T(0); }));
  add_binary(kernels, "hardswish_grad", floating([]<class T>(T x, T g) -> T {
               T inside = g * (x * T(1.0 / 3) + T(0.5));
               return x < -3 ? T(0) : x > 3 ? g : inside;
             }));
  kernels.add("gelu_grad", gelu_grad);
  kernels.add("leaky_relu_grad", leaky_relu_grad);
  kernels.add("softplus_grad", softplus_grad);
  kernels.add("clamp_grad", clamp_grad);
}

}  // namespace

void register_unary_ref(KernelRegistry& kernels) {
  register_plain(kernels);
  register_transcendental(kernels);
  register_questions(kernels);
  kernels.add("gelu", gelu);
  kernels.add("softplus", softplus);
  kernels.add("leaky_relu", leaky_relu);
  kernels.add("clamp", clamp);
  register_gradients(kernels);
}

}  // namespace aspen
