// Any op through float32: makes a kernel for a request with 16-bit floats in it out of the kernel of the same op for
// float32. Inputs become float in the workspace, the float kernel runs, and its results are rounded once. Used by the
// backends for bfloat16, which has no arithmetic of its own, by the CPU backend for half, and by stochastic rounding.
#pragma once

#include <memory>
#include <optional>

#include "aspen/backends/api/kernel.h"

namespace aspen {

// How elements become float, and floats elements.
class FloatConversion {
 public:
  virtual ~FloatConversion() = default;
  // Types that are converted; others reach the float kernel as they are.
  virtual bool takes(DType type) const = 0;
  // Both on the threads of args.step, if it has any.
  virtual void widen(const KernelArgs& args, DType type, const void* from, float* to, std::int64_t n) const = 0;
  // output: the index of the result.
  virtual void round(const KernelArgs& args, std::size_t output, DType type, const float* from, void* to,
                     std::int64_t n) const = 0;
};

// bfloat16 in plain loops, to the nearest.
std::shared_ptr<const FloatConversion> plain_bfloat16_conversion();

// What is converted: a kernel may read narrow inputs itself.
enum class FloatPorts : std::uint8_t { kAll, kOutputs };

// The request with float32 for every type the conversion takes; nothing: it has none of these.
std::optional<KernelRequest> widened_request(const KernelRequest& request, const FloatConversion& conversion,
                                             FloatPorts ports = FloatPorts::kAll);

// kernel: of widened_request().
std::unique_ptr<Kernel> make_through_float(const KernelRequest& request,
                                           std::shared_ptr<const FloatConversion> conversion,
                                           std::unique_ptr<Kernel> kernel, FloatPorts ports = FloatPorts::kAll);

// Whether the request has bfloat16 in it and its plain kernel computes; plain kernels that only store, move or convert
// elements, and those of optimisers, which read and write them one by one, take bfloat16 themselves.
bool computes_in_bfloat16(const KernelRequest& request);

}  // namespace aspen
