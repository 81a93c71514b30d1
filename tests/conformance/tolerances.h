// How far two right answers may lie apart, by element type.
#pragma once

#include "aspen/base/dtype.h"

namespace aspen::testing {

struct Tolerance {
  DType dtype;
  double relative, absolute;
  const char* reason;
};

inline constexpr Tolerance kTolerances[] = {
    {DType::kF32, 1e-4, 1e-5, "sums run in another order and vector mathematics rounds differently in the last bits"},
    {DType::kF16, 5e-3, 1e-3, "half has 11 bits: one rounding is 5e-4, and intermediate results may be rounded too"},
    {DType::kBF16, 2e-2, 4e-3,
     "bfloat16 has 8 bits: one rounding is 4e-3, and intermediate results may be rounded too"},
    {DType::kF64, 1e-10, 1e-12, "only the order of sums differs"},
    {DType::kI32, 0, 0, "integers are exact"},
    {DType::kI16, 0, 0, "integers are exact"},
    {DType::kI8, 0, 0, "integers are exact"},
    {DType::kU8, 0, 0, "integers are exact"},
    {DType::kBool, 0, 0, "truth is exact"},
};

// Of an analytic derivative against central differences in f64: with a step of 1e-6 the truncation error is about
// 1e-12 and the rounding error 1e-16 / 1e-6, times the size of the function.
inline constexpr Tolerance kFiniteDifferences = {DType::kF64, 1e-6, 1e-7, "a step of 1e-6 costs six digits of sixteen"};

const Tolerance& tolerance_of(DType type);
bool close(double actual, double expected, const Tolerance& tolerance);  // NaN equals NaN

}  // namespace aspen::testing
