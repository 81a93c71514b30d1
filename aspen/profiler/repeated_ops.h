// Which instructions of the backward pass only compute values of the forward pass again. Programs do not say so, but it
// shows: gradients do not reach such an instruction, and the forward pass has one like it.
#pragma once

#include <unordered_set>

#include "aspen/runtime/program.h"

namespace aspen {

// Those of the step.
std::unordered_set<const Instruction*> repeated_ops(const Program& program);

}  // namespace aspen
