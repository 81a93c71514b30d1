// Negative log likelihood and cross entropy: x (C), (N, C) or (N, C, ...), classes along axis 1. A mean in which
// every label is ignored is 0.
#include "aspen/ops/nll/nll.h"
#include "aspen/ops/softmax/softmax.h"
#include "poptorch/aten/support/loss.h"

namespace poptorch {
namespace {

const char* name_of_reduction(Reduction reduction) {
  return reduction == Reduction::kNone ? "none" : reduction == Reduction::kMean ? "mean" : "sum";
}

aspen::NllAttrs nll_attrs(const Call& call) {
  return {call.integer("ignore_index"), name_of_reduction(reduction_of(call))};
}

Value* class_weight(Call& call, const Expr& x) {
  return call.has("weight") ? build::cast(call.b, call.value("weight"), x.dtype()) : nullptr;
}

struct Likelihood {
  Expr loss, total_weight;
};

// log_p (N, C, ...), target (N, ...)
Likelihood nll(Call& call, Expr log_p, Expr target) {
  aspen::Op* op = call.b.emit("nll", {log_p.v, target.v, class_weight(call, log_p)}, nll_attrs(call));
  return {expr(call, op->output(0)), expr(call, op->output(1))};
}

// Input and target with a batch axis.
struct Examples {
  Expr x, target;
  bool unbatched;
};

Examples examples(Call& call, bool class_indices) {
  Expr x = expr(call, call.value("self")), target = expr(call, call.value("target"));
  bool unbatched = x.rank() == 1;
  if (unbatched) x = unsqueeze(x, 0), target = unsqueeze(target, 0);
  if (class_indices) {
    Shape expected = x.shape();
    if (expected.size() < 2)
      throw UserError("[{}] the input has no class axis; expected shape [C], [N, C] or [N, C, ...].", call.name());
    expected.erase(expected.begin() + 1);
    if (target.shape() != expected) {
      throw UserError("[{}] a target of shape {} does not fit an input of shape {}; expected shape {}.", call.name(),
                      to_string(target.shape()), to_string(x.shape()), to_string(expected));
    }
    target = cast(target, DType::kI32);
  }
  return {x, target, unbatched};
}

void give(Call& call, Expr loss, bool unbatched) {
  if (unbatched && loss.rank() == 1) loss = squeeze(loss, 0);
  give_loss(call, loss, call.dtype("self"));
}

// nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, int ignore_index=-100), nll_loss,
// nll_loss2d nll_loss_forward(...) -> (Tensor output, Tensor total_weight), nll_loss2d_forward(...)
Handler nll_loss(bool with_total) {
  return [with_total](Call& call) {
    Examples e = examples(call, true);
    Likelihood l = nll(call, e.x, e.target);
    give(call, l.loss, e.unbatched);
    if (with_total) call.result(l.total_weight.v, call.dtype("self"));
  };
}

Shape class_shape(const Expr& x) {
  Shape shape(x.shape().size(), 1);
  shape[1] = x.size(1);
  return shape;
}

// Targets that are probabilities per class: -sum_c w_c t_c log p_c; the mean divides by the number of examples.
void soft_cross_entropy(Call& call, double smoothing) {
  Examples e = examples(call, false);
  Expr x = in_float(e.x), target = in_float(cast(e.target, e.x.dtype()));
  std::int64_t classes = x.size(1);
  if (target.shape() != x.shape()) {
    throw UserError("[cross_entropy] a target of probabilities has the shape of the input: {} and {} differ.",
                    to_string(target.shape()), to_string(x.shape()));
  }
  if (smoothing > 0) target = target * (1 - smoothing) + smoothing / static_cast<double>(classes);
  Expr log_p = expr(call, call.b.make("log_softmax", {x.v}, aspen::SoftmaxAttrs{1}));
  Expr terms = log_p * target;
  if (call.has("weight")) terms = terms * reshape(in_float(expr(call, call.value("weight"))), class_shape(x));
  Expr loss = -sum(terms, {1});
  Reduction reduction = reduction_of(call);
  if (reduction == Reduction::kNone) return give(call, loss, e.unbatched);
  Expr total = sum(loss, all_axes(loss.shape()));
  give(call, reduction == Reduction::kSum ? total : total / static_cast<double>(loss.numel()), e.unbatched);
}

// cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, int ignore_index=-100, float
// label_smoothing=0.)
void cross_entropy_loss(Call& call) {
  double smoothing = call.number("label_smoothing");
  if (smoothing < 0 || smoothing > 1)
    throw UserError("[cross_entropy] label_smoothing {} is not between 0 and 1.", smoothing);
  if (is_float(call.dtype("target"))) return soft_cross_entropy(call, smoothing);
  Examples e = examples(call, true);
  Expr x = in_float(e.x);
  aspen::CrossEntropyAttrs attrs{nll_attrs(call), smoothing};
  give(call, expr(call, call.b.make("cross_entropy", {x.v, e.target.v, class_weight(call, x)}, attrs)), e.unbatched);
}

}  // namespace

void register_classification_losses(HandlerTable& table) {
  for (const char* name : {"aten::nll_loss_nd", "aten::nll_loss", "aten::nll_loss2d"}) table.add(name, nll_loss(false));
  table.add("aten::nll_loss_forward", nll_loss(true));
  table.add("aten::nll_loss2d_forward", nll_loss(true));
  table.add("aten::cross_entropy_loss", cross_entropy_loss);
}

}  // namespace poptorch
