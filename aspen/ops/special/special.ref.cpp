#include <math.h>  // j0, j1, y0, y1

#include <cmath>
#include <numeric>

#include "aspen/backends/reference/elementwise.h"
#include "aspen/ops/special/special_functions.ref.h"

namespace aspen {
namespace {

template <double (*f)(double)>
UnaryFunctions in_double() {
  return for_floating<UnaryFunctions>([]<class T>(T x) -> T { return static_cast<T>(f(x)); });
}
template <double (*f)(double, double)>
BinaryFunctions in_double() {
  return for_floating<BinaryFunctions>([]<class T>(T x, T y) -> T { return static_cast<T>(f(x, y)); });
}
// The degree is cut to an integer, towards 0; NaN counts as a negative one.
template <double (*f)(double, std::int64_t)>
BinaryFunctions polynomial() {
  return for_floating<BinaryFunctions>(
      []<class T>(T x, T n) -> T { return static_cast<T>(f(x, n > -1 ? static_cast<std::int64_t>(n) : -1)); });
}

template <int order>
double i(double x) {
  return bessel_ie(order, x) * std::exp(std::fabs(x));
}
template <int order>
double ie(double x) {
  return bessel_ie(order, x);
}
template <int order>
double k(double x) {
  return bessel_ke(order, x) * std::exp(-x);
}
template <int order>
double ke(double x) {
  return bessel_ke(order, x);
}

std::int32_t greatest_common_divisor(std::int32_t x, std::int32_t y) {
  return static_cast<std::int32_t>(std::gcd(static_cast<std::int64_t>(x), static_cast<std::int64_t>(y)));
}

}  // namespace

void register_special_ref(KernelRegistry& kernels) {
  add_unary(kernels, "bessel_i0", in_double<i<0>>());
  add_unary(kernels, "bessel_i0e", in_double<ie<0>>());
  add_unary(kernels, "bessel_i1", in_double<i<1>>());
  add_unary(kernels, "bessel_i1e", in_double<ie<1>>());
  add_unary(kernels, "bessel_j0", in_double<::j0>());
  add_unary(kernels, "bessel_j1", in_double<::j1>());
  add_unary(kernels, "bessel_y0", in_double<::y0>());
  add_unary(kernels, "bessel_y1", in_double<::y1>());
  add_unary(kernels, "bessel_k0", in_double<k<0>>());
  add_unary(kernels, "bessel_k1", in_double<k<1>>());
  add_unary(kernels, "bessel_k0e", in_double<ke<0>>());
  add_unary(kernels, "bessel_k1e", in_double<ke<1>>());
  add_unary(kernels, "airy_ai", in_double<airy_ai>());
  add_unary(kernels, "erfcx", in_double<erfcx>());
  add_unary(kernels, "ndtri", in_double<ndtri>());
  add_binary(kernels, "zeta", in_double<hurwitz_zeta>());
  add_binary(kernels, "igamma", in_double<lower_gamma>());
  add_binary(kernels, "igammac", in_double<upper_gamma>());
  add_binary(kernels, "nextafter",
             for_floating<BinaryFunctions>([]<class T>(T x, T y) -> T { return std::nextafter(x, y); }));
  add_binary(kernels, "gcd", for_integers<BinaryFunctions>(greatest_common_divisor));
  add_binary(kernels, "chebyshev_t", polynomial<chebyshev_t>());
  add_binary(kernels, "chebyshev_u", polynomial<chebyshev_u>());
  add_binary(kernels, "chebyshev_v", polynomial<chebyshev_v>());
  add_binary(kernels, "chebyshev_w", polynomial<chebyshev_w>());
  add_binary(kernels, "hermite_h", polynomial<hermite_h>());
  add_binary(kernels, "hermite_he", polynomial<hermite_he>());
  add_binary(kernels, "laguerre_l", polynomial<laguerre_l>());
  add_binary(kernels, "legendre_p", polynomial<legendre_p>());
}

}  // namespace aspen
