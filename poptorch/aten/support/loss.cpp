#include "poptorch/aten/support/loss.h"

namespace poptorch {

Reduction reduction_of(const Call& call) {
  std::int64_t reduction = call.integer("reduction");
  if (reduction < 0 || reduction > 2)
    throw UserError("[{}] unknown reduction {}; expected 0 (none), 1 (mean) or 2 (sum).", call.name(), reduction);
  return static_cast<Reduction>(reduction);
}

void give_loss(Call& call, Expr loss, ScalarType type) {
  call.result(call.loss(cast(loss, graph_dtype(type)).v), type);
}

void finish_loss(Call& call, Expr elements, ScalarType type) {
  switch (reduction_of(call)) {
    case Reduction::kNone: return give_loss(call, elements, type);
    case Reduction::kMean: return give_loss(call, mean(elements, all_axes(elements.shape())), type);
    case Reduction::kSum: return give_loss(call, sum(elements, all_axes(elements.shape())), type);
  }
}

LossPair loss_operands(Call& call, std::string_view input, std::string_view target) {
  ScalarType type = floating_type(call.result_type({input, target}));
  return {in_float(expr(call, operand(call, input, type))), in_float(expr(call, operand(call, target, type))), type};
}

}  // namespace poptorch
