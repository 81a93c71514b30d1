// Special functions the standard library lacks or has only with side effects. Computed in double; a few ulp.
#pragma once

namespace aspen {

double erfinv(double y);     // inverse of erf; +-inf at +-1, NaN outside
double digamma(double x);    // derivative of lgamma; -+inf at +-0, NaN at negative integers
double trigamma(double x);   // derivative of digamma; inf at 0 and negative integers
double log_gamma(double x);  // lgamma without the global sign: safe on many threads
float log_gamma(float x);

}  // namespace aspen
