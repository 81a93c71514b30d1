// Loops and branches of a model that is captured, as ops that own graphs (aspen/ops/control). A body is recorded once,
// as a region of the model's graph (region.h), and cut out of it.
//
// Some bodies cannot be graphs of their own: those that call functions with a backward pass of the model's own, put
// hooks on gradients, have ops of several blocks in them, give tensors other memory or hold a loss; and of loops those
// that write to memory outside. The turns of such a loop are recorded one after the other, and of such a branch both
// sides are computed and the results chosen between.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace poptorch {

class Recorder;

// Loops of so few turns are recorded turn by turn: a turn of them saves what it takes to call a kernel within a kernel.
// Measured by benchmarks/recurrent.py.
inline constexpr std::int64_t kLongestUnrolled = 2;

using Tensors = std::vector<at::Tensor>;
// Calls the body and checks what it returns.
using Turn = std::function<Tensors(const Tensors&)>;

Tensors record_loop(Recorder& recorder, std::int64_t count, const Turn& turn, const Tensors& inputs);

struct Branch {
  Turn body;
  Tensors inputs;
};

// condition: a bool tensor of one element. `check` sees the results of both branches.
Tensors record_cond(Recorder& recorder, const at::Tensor& condition, const Branch& yes, const Branch& no,
                    const std::function<void(const Tensors&, const Tensors&)>& check);

}  // namespace poptorch
