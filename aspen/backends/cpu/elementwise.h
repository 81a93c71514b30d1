// Elementwise kernels from vectorised float loops: rows of broadcast operands, half and bfloat16 through float blocks.
// Called by the kernels of unary, binary and compare ops.
#pragma once

#include "aspen/backends/api/kernel.h"

namespace aspen {

// Numbers an op got from its attributes; the meaning is the loop's.
struct LoopParameters {
  float a = 0, b = 0;
};

// y[i] = f(x[i]); y may be x.
using UnaryLoop = void (*)(const float* x, float* y, std::int64_t n, const LoopParameters& p);
// z[i] = f(x[i * dx], y[i * dy]) with steps of 0 or 1; z may be x or y.
using BinaryLoop = void (*)(const float* x, std::int64_t dx, const float* y, std::int64_t dy, float* z, std::int64_t n,
                            const LoopParameters& p);
using CompareLoop = void (*)(const float* x, std::int64_t dx, const float* y, std::int64_t dy, bool* z, std::int64_t n);

// Each makes the kernel or, for an element type without a loop, declines.
std::unique_ptr<Kernel> make_unary_loop(const KernelRequest& request, UnaryLoop loop, const LoopParameters& parameters,
                                        std::string& why);
std::unique_ptr<Kernel> make_binary_loop(const KernelRequest& request, BinaryLoop loop,
                                         const LoopParameters& parameters, std::string& why);
std::unique_ptr<Kernel> make_compare_loop(const KernelRequest& request, CompareLoop loop, std::string& why);

// Conversion of n elements, rounded to the nearest.
void to_float(const Half* x, float* y, std::int64_t n);
void to_float(const BFloat16* x, float* y, std::int64_t n);
void from_float(const float* x, Half* y, std::int64_t n);
void from_float(const float* x, BFloat16* y, std::int64_t n);

}  // namespace aspen
