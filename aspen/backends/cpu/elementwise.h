// Elementwise kernels from vectorised loops: rows of broadcast operands, half and bfloat16 through float blocks, other
// types by loops of their own. Called by the kernels of unary, binary and compare ops.
#pragma once

#include <span>
#include <string_view>

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

// The same over elements of the types a row of a table names; bools are bytes that hold 0 or 1.
using TypedUnaryLoop = void (*)(const void* x, void* y, std::int64_t n);
using TypedLoop = void (*)(const void* x, std::int64_t dx, const void* y, std::int64_t dy, void* z, std::int64_t n);
template <class Loop>
struct TypedRow {
  std::string_view op;
  DType dtype;  // of the inputs
  Loop loop;
};

// Each makes the kernel or, for an element type without a loop, declines.
std::unique_ptr<Kernel> make_unary_loop(const KernelRequest& request, UnaryLoop loop, const LoopParameters& parameters,
                                        std::string& why);
std::unique_ptr<Kernel> make_binary_loop(const KernelRequest& request, BinaryLoop loop,
                                         const LoopParameters& parameters, std::string& why);
// These look for the op and the type of the first input in a table.
std::unique_ptr<Kernel> make_typed_unary(const KernelRequest& request, std::span<const TypedRow<TypedUnaryLoop>> rows,
                                         std::string& why);
std::unique_ptr<Kernel> make_typed_binary(const KernelRequest& request, std::span<const TypedRow<TypedLoop>> rows,
                                          std::string& why);

// Conversion of n elements, rounded to the nearest.
void to_float(const Half* x, float* y, std::int64_t n);
void to_float(const BFloat16* x, float* y, std::int64_t n);
void from_float(const float* x, Half* y, std::int64_t n);
void from_float(const float* x, BFloat16* y, std::int64_t n);

}  // namespace aspen
