// Losses on distances, similarities and margins between classes.
#include <limits>

#include "poptorch/aten/support/loss.h"
#include "poptorch/aten/support/norms.h"

namespace poptorch {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// max(0, x) as torch's clamp_min has it: the gradient passes at 0.
Expr hinge(Expr x) { return clamp(x, 0, kInfinity); }

// cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1)
// y = 1: 1 - cos; y = -1: max(0, cos - margin); anything else: 0
void cosine_embedding_loss(Call& call) {
  auto [x1, x2, type] = loss_operands(call, "input1", "input2");
  Expr y = in_float(expr(call, operand(call, "target", type)));
  std::int64_t axis = y.rank();
  Expr scale1 = sum(x1 * x1, {axis}) + 1e-12, scale2 = sum(x2 * x2, {axis}) + 1e-12;
  Expr cosine = sum(x1 * x2, {axis}) / sqrt(scale1 * scale2);
  Expr positive = where(y == 1.0, 1 - cosine, 0.0);
  Expr negative = where(y == -1.0, hinge(cosine - call.number("margin")), 0.0);
  finish_loss(call, positive + negative, type);
}

// |x1 - x2 + eps|_p over the last axis
Expr pairwise_distance(Expr x1, Expr x2, double p, double eps) {
  Expr d = x1 - x2 + eps;
  return vector_norm(d, p, {d.rank() - 1}, false);
}

// triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., float p=2., float eps=1e-06,
// bool swap=False, int reduction=1): max(0, d(a, p) - d(a, n) + margin); swap: the nearer of d(a, n) and d(p, n)
void triplet_margin_loss(Call& call) {
  ScalarType type = floating_type(call.result_type({"anchor", "positive", "negative"}));
  auto argument = [&](const char* name) { return in_float(expr(call, operand(call, name, type))); };
  Expr a = argument("anchor"), positive = argument("positive"), negative = argument("negative");
  double p = call.number("p"), eps = call.number("eps");
  Expr near = pairwise_distance(a, positive, p, eps), far = pairwise_distance(a, negative, p, eps);
  if (call.boolean("swap")) far = min(far, pairwise_distance(positive, negative, p, eps));
  finish_loss(call, hinge(near - far + call.number("margin")), type);
}

// Input (N, C) and target with a batch axis added where it is missing.
struct Classes {
  Expr x, target;
  bool unbatched;
};

Classes classes(Call& call, std::int64_t target_rank) {
  Expr x = in_float(expr(call, call.value("self"))), target = cast(expr(call, call.value("target")), DType::kI32);
  bool unbatched = x.rank() < 2;
  if (unbatched) {
    x = reshape(x, {1, x.numel()});
    target = reshape(target, target_rank == 1 ? Shape{1} : Shape{1, target.numel()});
  }
  return {x, target, unbatched};
}

void finish(Call& call, Expr loss, bool unbatched) {
  if (unbatched && reduction_of(call) == Reduction::kNone) loss = reshape(loss, {});
  finish_loss(call, loss, call.dtype("self"));
}

// multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=1)
// sum over the other classes of w[t] max(0, margin - x[t] + x[c])^p, over the number of classes
void multi_margin_loss(Call& call) {
  auto [x, target, unbatched] = classes(call, 1);
  std::int64_t count = x.size(1);
  target = check_range(target, 0, count - 1, "multi_margin_loss", "target", fmt::format("{} classes", count));
  Expr column = unsqueeze(target, 1);
  Expr z = call.number("margin") - gather(x, column, 1) + x;
  Expr other = positions(call.b, 2, 1, count) != column;
  // Strictly positive parts count, so that the gradient at 0 is 0 as in torch.
  Expr excess = where(other && z > 0.0, z, 0.0);
  Expr h = call.number("p") == 2 ? excess * excess : excess;
  if (call.has("weight")) h = h * take(in_float(expr(call, call.value("weight"))), column, 0);
  finish(call, sum(h, {1}) / static_cast<double>(count), unbatched);
}

// Labels of a row up to the first -1: valid (N, C), and which classes they name: is_target (N, C).
struct Labels {
  Expr valid, index, is_target;
};

Labels labels_of(Call& call, Expr target) {
  Expr ended = cumsum(cast(target < 0.0, DType::kI32), 1);
  Expr valid = ended == 0.0;
  Expr index = where(valid, target, full_like(target, 0));
  Expr marks = scatter(full(call.b, DType::kI32, target.shape(), 0), index, cast(valid, DType::kI32), 1, "max");
  return {valid, index, marks};
}

// multilabel_margin_loss(Tensor self, Tensor target, int reduction=1), multilabel_margin_loss_forward(...) -> (Tensor
// output, Tensor is_target): sum over labels t and classes c that are no label of max(0, 1 - x[t] + x[c]), over C
Handler multilabel_margin_loss(bool with_targets) {
  return [with_targets](Call& call) {
    auto [x, target, unbatched] = classes(call, 2);
    std::int64_t count = x.size(1);
    target = check_range(target, -1, count - 1, "multilabel_margin_loss", "target", fmt::format("{} classes", count));
    Labels labels = labels_of(call, target);
    Expr of_label = gather(x, labels.index, 1);
    Expr z = 1 - unsqueeze(of_label, 2) + unsqueeze(x, 1);  // (N, labels, classes)
    Expr counted = unsqueeze(labels.valid, 2) && unsqueeze(labels.is_target == 0.0, 1);
    Expr loss = sum(where(counted && z > 0.0, z, 0.0), {1, 2}) / static_cast<double>(x.size(1));
    finish(call, loss, unbatched);
    if (with_targets) {
      Expr marks = cast(labels.is_target, x.dtype());
      call.result(
          cast(unbatched ? reshape(marks, call.value("target")->shape()) : marks, graph_dtype(call.dtype("self"))).v,
          call.dtype("self"));
    }
  };
}

}  // namespace

void register_margin_losses(HandlerTable& table) {
  table.add("aten::cosine_embedding_loss", cosine_embedding_loss);
  table.add("aten::triplet_margin_loss", triplet_margin_loss);
  table.add("aten::multi_margin_loss", multi_margin_loss);
  table.add("aten::multilabel_margin_loss", multilabel_margin_loss(false));
  table.add("aten::multilabel_margin_loss_forward", multilabel_margin_loss(true));
}

}  // namespace poptorch
