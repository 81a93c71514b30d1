// The special functions of this folder, in double. Used by its reference kernels.
#pragma once

#include <cstdint>

namespace aspen {

// Bessel functions of orders 0 and 1; "e": without the exponential they grow or fall by.
double bessel_ie(int order, double x);  // I(x) e^-|x|
double bessel_ke(int order, double x);  // K(x) e^x; inf at 0, NaN below
double airy_ai(double x);

double erfcx(double x);
double ndtri(double p);

double hurwitz_zeta(double s, double q);
double lower_gamma(double a, double x);  // regularised
double upper_gamma(double a, double x);

// Polynomials in x of degree n; 0 for negative degrees.
double chebyshev_t(double x, std::int64_t n);
double chebyshev_u(double x, std::int64_t n);
double chebyshev_v(double x, std::int64_t n);
double chebyshev_w(double x, std::int64_t n);
double hermite_h(double x, std::int64_t n);
double hermite_he(double x, std::int64_t n);
double laguerre_l(double x, std::int64_t n);
double legendre_p(double x, std::int64_t n);

}  // namespace aspen
