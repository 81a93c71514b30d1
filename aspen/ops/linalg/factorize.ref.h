// Factorisations of one matrix in double precision, row by row in memory. Used by the reference kernels.
#pragma once

#include <cstdint>

namespace aspen {

// a (n, n) becomes its lower factor, with zeros above. 0, or the order of the first minor that is not positive.
std::int32_t cholesky_factor(double* a, std::int64_t n);

// a (m, n) becomes l and u; pivots (min(m, n)) from 1. 0, or the first pivot that is 0, from 1.
std::int32_t lu_factor(double* a, std::int64_t m, std::int64_t n, std::int32_t* pivots);

// a (m, n) becomes r and the vectors below its diagonal; tau (min(m, n)). The signs are those of LAPACK's geqrf.
void householder_factor(double* a, std::int64_t m, std::int64_t n, double* tau);

// a (n, n) symmetric is destroyed; values (n) ascending, vectors (n, n) in columns. By Jacobi's rotations: slower than
// other methods for large matrices, and exact to the last digits of every eigenvalue for small ones.
void eigen_factor(double* a, std::int64_t n, double* values, double* vectors);

// a (m, n), m >= n, becomes u (m, n); s (n) descending, v (n, n). By one-sided rotations (Hestenes).
void singular_factor(double* a, std::int64_t m, std::int64_t n, double* s, double* v);

}  // namespace aspen
