// Losses that compare element by element. Every one of them is a loss to train on: the last step marks it.
#include <cmath>

#include "aspen/ops/binary/binary.h"
#include "poptorch/aten/support/loss.h"

namespace poptorch {
namespace {

// l1_loss(Tensor self, Tensor target, int reduction=1)
void l1_loss(Call& call) {
  auto [x, y, type] = loss_operands(call);
  finish_loss(call, abs(x - y), type);
}

// mse_loss(Tensor self, Tensor target, int reduction=1)
void mse_loss(Call& call) {
  auto [x, y, type] = loss_operands(call);
  finish_loss(call, binary("squared_difference", x, y), type);
}

Expr huber(Expr x, Expr y, const aspen::HuberAttrs& attrs) { return expr(*x.b, x.b->make("huber", {x.v, y.v}, attrs)); }

// smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.): d^2 / (2 beta) below beta, else d - beta
// / 2
void smooth_l1_loss(Call& call) {
  double beta = call.number("beta");
  if (beta < 0) throw UserError("[smooth_l1_loss] beta {} is negative; expected beta >= 0.", beta);
  if (beta == 0) return l1_loss(call);
  auto [x, y, type] = loss_operands(call);
  finish_loss(call, huber(x, y, {beta, 1}), type);
}

// huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.): d^2 / 2 up to delta, else delta (d - delta /
// 2)
void huber_loss(Call& call) {
  double delta = call.number("delta");
  if (!(delta > 0)) throw UserError("[huber_loss] delta {} is not positive.", delta);
  auto [x, y, type] = loss_operands(call);
  finish_loss(call, huber(x, y, {delta, delta}), type);
}

Expr weighted(Call& call, Expr loss) {
  return call.has("weight") ? loss * in_float(expr(call, call.value("weight"))) : loss;
}

// A logarithm cut off at -100.
Expr cut_log(Expr x) { return clamp(log(x), -100, std::numeric_limits<double>::infinity()); }

// binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1)
// Value: -(y log x + (1 - y) log(1 - x)), logarithms cut off at -100. Gradient by x: (x - y) / max(x (1 - x), 1e-12),
// also where the logarithms are cut off: the value is detached and a term of value 0 carries the gradient.
void binary_cross_entropy(Call& call) {
  auto [x, y, type] = loss_operands(call);
  Expr fixed = detach(x);
  Expr value = -(y * cut_log(fixed) + (1 - y) * cut_log(1 - fixed));
  Expr spread = fixed * (1 - fixed);
  Expr slope = detach(fixed - y) / where(spread < 1e-12, 1e-12, spread);
  finish_loss(call, weighted(call, value + (x - fixed) * slope), type);
}

// binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight, Tensor? pos_weight, int reduction=1)
// (1 - y) x + (1 + (w - 1) y) (log1p(exp(-|x|)) + max(-x, 0)), w = pos_weight
void binary_cross_entropy_with_logits(Call& call) {
  auto [x, y, type] = loss_operands(call);
  Expr softplus_of_minus_x = log1p(exp(-abs(x))) + max(-x, full(call.b, x.dtype(), {}, 0));
  Expr loss;
  if (call.has("pos_weight")) {
    Expr w = in_float(expr(call, call.value("pos_weight")));
    loss = (1 - y) * x + ((w - 1.0) * y + 1.0) * softplus_of_minus_x;
  } else {
    loss = (1 - y) * x + softplus_of_minus_x;
  }
  finish_loss(call, weighted(call, loss), type);
}

// kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False)
void kl_div(Call& call) {
  auto [x, y, type] = loss_operands(call);
  if (call.boolean("log_target")) return finish_loss(call, exp(y) * (y - x), type);
  Expr zero = y == 0.0;
  Expr y_log_y = where(zero, 0.0, y * log(where(zero, 1.0, y)));
  finish_loss(call, y_log_y - y * x, type);
}

// poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction)
// full adds Stirling's y log y - y + log(2 pi y) / 2 where y > 1
void poisson_nll_loss(Call& call) {
  auto [x, y, type] = loss_operands(call, "input", "target");
  Expr loss = call.boolean("log_input") ? exp(x) - y * x : x - y * log(x + call.number("eps"));
  if (call.boolean("full")) {
    Expr large = y > 1.0;
    Expr safe = where(large, y, 1.0);
    Expr stirling = safe * log(safe) - safe + log(safe * (2 * 3.14159265358979323846)) * 0.5;
    loss = loss + where(large, stirling, 0.0);
  }
  finish_loss(call, loss, type);
}

// soft_margin_loss(Tensor self, Tensor target, int reduction=1): log1p(exp(-y x))
void soft_margin_loss(Call& call) {
  auto [x, y, type] = loss_operands(call);
  finish_loss(call, softplus(-(y * x)), type);
}

// hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1)
// y = 1: x; y = -1: max(0, margin - x); other targets count both parts, as torch's
void hinge_embedding_loss(Call& call) {
  auto [x, y, type] = loss_operands(call);
  Expr hinge = relu(call.number("margin") - x);
  Expr loss = where(y != 1.0, hinge, hinge * 0.0) + where(y != -1.0, x, x * 0.0);
  finish_loss(call, loss, type);
}

// margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1)
void margin_ranking_loss(Call& call) {
  auto [x1, x2, type] = loss_operands(call, "input1", "input2");
  Expr y = in_float(expr(call, operand(call, "target", type)));
  // torch clamps from below, which lets the gradient through at 0.
  finish_loss(call, clamp(-y * (x1 - x2) + call.number("margin"), 0, std::numeric_limits<double>::infinity()), type);
}

}  // namespace

void register_losses(HandlerTable& table) {
  table.add("aten::l1_loss", l1_loss);
  table.add("aten::mse_loss", mse_loss);
  table.add("aten::smooth_l1_loss", smooth_l1_loss);
  table.add("aten::huber_loss", huber_loss);
  table.add("aten::binary_cross_entropy", binary_cross_entropy);
  table.add("aten::binary_cross_entropy_with_logits", binary_cross_entropy_with_logits);
  table.add("aten::kl_div", kl_div);
  table.add("aten::poisson_nll_loss", poisson_nll_loss);
  table.add("aten::soft_margin_loss", soft_margin_loss);
  table.add("aten::hinge_embedding_loss", hinge_embedding_loss);
  table.add("aten::margin_ranking_loss", margin_ranking_loss);
}

}  // namespace poptorch
