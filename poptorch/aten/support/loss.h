// The common end of every loss: reduce, mark as a loss, give the result. Called by the loss handlers.
#pragma once

#include "poptorch/aten/support/expression.h"

namespace poptorch {

enum class Reduction { kNone = 0, kMean = 1, kSum = 2 };  // as ATen's loss schemas number them

Reduction reduction_of(const Call& call);
// Reduces element losses over everything, marks the result and gives it the type asked for.
void finish_loss(Call& call, Expr elements, ScalarType type);
// Marks and gives a loss that is already reduced.
void give_loss(Call& call, Expr loss, ScalarType type);

// The floating operands of a loss, in float32 or better, broadcast by the formulas that use them.
struct LossPair {
  Expr x, y;
  ScalarType type;  // of the result
};
LossPair loss_operands(Call& call, std::string_view input = "self", std::string_view target = "target");

}  // namespace poptorch
