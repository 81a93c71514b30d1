// nll: negative log likelihood of target classes. With w the class weights (1 when absent) and t the target,
//   none: -w[t] * x[t];   sum: their sum;   mean: their sum / sum of w[t];   ignored targets count nothing.
//   dx[t] = -w[t] * g, divided by the total weight for mean; 0 everywhere else.
// cross_entropy: nll of log_softmax along axis 1, in one pass over x. With p = exp(x - top) / sum, w the class weights
// (1 when absent), t the target, s the smoothing and C the number of classes, the loss of a target that counts is
//   -(1 - s) * w[t] * log p[t] - s / C * sum_c(w[c] * log p[c]),
// reduced as in nll: the mean is over the weights w[t]. With g the gradient of the loss, divided by their sum for mean:
//   dx[c] = g * (p[c] * ((1 - s) * w[t] + s / C * sum(w)) - s / C * w[c] - (c == t) * (1 - s) * w[t])
// Where a target does not count dx is 0, whatever x holds.
#include "aspen/ops/nll/nll.h"

#include "aspen/ops/build.h"

namespace aspen {
namespace {

// What the loss of target classes is made of.
struct LossOperands {
  const TensorType &x, &target;
  const TensorType* weight;  // or nullptr
};

// Checks operands against one another; returns the type of the loss.
TensorType loss_type(const InferContext& c, const NllAttrs& attrs, const LossOperands& operands) {
  const auto& [x, target, weight] = operands;
  const std::string& reduction = attrs.reduction;
  c.check(is_floating(x.dtype) && x.rank() >= 2, "takes floating point numbers (N, C, ...), not {}.", to_string(x));
  TensorType expected{DType::kI32, x.shape};
  expected.shape.erase(expected.shape.begin() + 1);
  c.check(target == expected, "the target is {}, expected {} for {}.", to_string(target), to_string(expected),
          to_string(x));
  TensorType classes{x.dtype, {x.shape[1]}};
  c.check(weight == nullptr || *weight == classes, "the weight is {}, expected {}, one per class.",
          weight == nullptr ? "" : to_string(*weight), to_string(classes));
  c.check(reduction == "none" || reduction == "mean" || reduction == "sum",
          "unknown reduction \"{}\"; expected none, mean or sum.", reduction);
  return {x.dtype, reduction == "none" ? target.shape : Shape{}};
}

TensorType total_weight_type(const TensorType& x) { return {is_narrow_float(x.dtype) ? DType::kF32 : x.dtype, {}}; }

// -- nll --------------------------------------------------------------------------------------------------------------

std::vector<TensorType> infer_nll(const InferContext& c) {
  return {loss_type(c, c.attrs<NllAttrs>(), {c.in(0), c.in(1), c.has(2) ? &c.in(2) : nullptr}),
          total_weight_type(c.in(0))};
}

std::vector<TensorType> infer_nll_grad(const InferContext& c) {
  const TensorType& x = c.in(4);
  TensorType loss = loss_type(c, c.attrs<NllAttrs>(), {x, c.in(0), c.has(1) ? &c.in(1) : nullptr});
  c.check(c.in(2) == total_weight_type(x), "the total weight is {}, expected {}.", to_string(c.in(2)),
          to_string(total_weight_type(x)));
  c.check(c.in(3) == loss, "the gradient is {}, but the loss is {}.", to_string(c.in(3)), to_string(loss));
  return {x};
}

// Positive "log probabilities" do no harm, and class weights must be positive.
Example example(const Shape& x, NllAttrs attrs) {
  Shape target = x;
  target.erase(target.begin() + 1);
  return {.inputs = {{DType::kF32, x}, {DType::kI32, target}, {DType::kF32, {x[1]}}},
          .attrs = Attrs::of(std::move(attrs)),
          .low = 0.1,
          .high = 3,
          .int_high = x[1]};
}

// -- cross_entropy ----------------------------------------------------------------------------------------------------

void check_smoothing(const InferContext& c) {
  const double smoothing = c.attrs<CrossEntropyAttrs>().smoothing;
  c.check(smoothing >= 0 && smoothing <= 1, "smoothing {} is not between 0 and 1.", smoothing);
}

// Of top and sum: a number for each target, as precise as the total weight.
TensorType statistics_type(const TensorType& x) {
  TensorType type{total_weight_type(x).dtype, x.shape};
  type.shape.erase(type.shape.begin() + 1);
  return type;
}

LossOperands operands_of(const InferContext& c) { return {c.in(0), c.in(1), c.has(2) ? &c.in(2) : nullptr}; }

std::vector<TensorType> infer_cross_entropy(const InferContext& c) {
  check_smoothing(c);
  const TensorType loss = loss_type(c, c.attrs<CrossEntropyAttrs>().nll, operands_of(c));
  const TensorType statistics = statistics_type(c.in(0));
  return {loss, total_weight_type(c.in(0)), statistics, statistics};
}

std::vector<TensorType> infer_cross_entropy_grad(const InferContext& c) {
  check_smoothing(c);
  const TensorType& x = c.in(0);
  const TensorType loss = loss_type(c, c.attrs<CrossEntropyAttrs>().nll, operands_of(c)), total = total_weight_type(x);
  c.check(c.in(3) == total, "the total weight is {}, expected {}.", to_string(c.in(3)), to_string(total));
  c.check(c.in(4) == loss, "the gradient is {}, but the loss is {}.", to_string(c.in(4)), to_string(loss));
  c.check(c.has(5) == c.has(6), "takes top and sum or neither.");
  for (std::size_t i : {5, 6}) {
    if (!c.has(i)) continue;
    c.check(c.in(i) == statistics_type(x), "takes statistics {}, not {}.", to_string(statistics_type(x)),
            to_string(c.in(i)));
  }
  return {x};
}

void cross_entropy_gradient(GradientContext& c) {
  c.no_gradient(2);                                   // a constant of the loss
  if (c.grad(0) == nullptr) return c.no_gradient(0);  // nobody differentiates the others
  if (!c.needs(0)) return;
  c.set(0, c.b.make("cross_entropy_grad", {c.in(0), c.in(1), c.in(2), c.out(1), c.grad(0), c.out(2), c.out(3)},
                    c.attrs<CrossEntropyAttrs>()));
}

void add_examples(OpDef& forward, OpDef& gradient) {
  struct Case {
    Shape x;
    CrossEntropyAttrs attrs;
  };
  // Lines, columns, targets that are ignored.
  for (const Case& e : std::vector<Case>{{{4, 3}, {{-100, "mean"}, 0}},
                                         {{3, 37}, {{1, "mean"}, 0.1}},
                                         {{2, 5, 3}, {{1, "none"}, 0.25}},
                                         {{2, 4, 3, 7}, {{2, "mean"}, 0}},
                                         {{6, 4}, {{2, "sum"}, 1}}}) {
    TensorType x{DType::kF32, e.x}, target{DType::kI32, e.x}, weight{DType::kF32, {e.x[1]}}, total{DType::kF32, {}};
    target.shape.erase(target.shape.begin() + 1);
    const TensorType statistics{DType::kF32, target.shape};
    const TensorType loss = e.attrs.nll.reduction == "none" ? statistics : total;
    Example example{
        .inputs = {x, target, weight}, .attrs = Attrs::of(e.attrs), .low = 0.5, .high = 2, .int_high = e.x[1]};
    forward.example(example);
    example.inputs = {x, target, weight, total, loss, statistics, statistics};
    gradient.example(std::move(example));
  }
}

void define_cross_entropy(OpRegistry& ops) {
  OpDef& forward = ops.define<CrossEntropyAttrs>("cross_entropy")
                       .summary("nll of log_softmax, without log probabilities in memory; a mean over nothing is 0.")
                       .input("x", "(N, C, ...), floating point")
                       .input("target", "i32 (N, ...), classes in [0, C) or ignore_index; anything else is an error")
                       .optional_input("weight", "(C), type of x; a constant of the loss")
                       .output("loss", "type of x; shape of target for reduction none, else a scalar")
                       .output("total_weight", "sum of the weights of the targets that count; f32 for f16")
                       .output("top", "the largest x of each target, 0 where it does not count; f32 for f16")
                       .output("sum", "sum of exp(x - top) for each target, 1 where it does not count; f32 for f16")
                       .infer(infer_cross_entropy)
                       .gradient(cross_entropy_gradient);
  OpDef& gradient = ops.define<CrossEntropyAttrs>("cross_entropy_grad")
                        .summary("Gradient of cross_entropy by x.")
                        .input("x", "input of cross_entropy; without statistics its log probabilities")
                        .input("target", "as in cross_entropy")
                        .optional_input("weight", "as in cross_entropy")
                        .input("total_weight", "output of cross_entropy")
                        .input("g", "gradient of the loss")
                        .optional_input("top", "output of cross_entropy")
                        .optional_input("sum", "output of cross_entropy")
                        .output("dx", "shape and type of x")
                        .infer(infer_cross_entropy_grad)
                        .inplace(0, 0);
  add_examples(forward, gradient);
}

}  // namespace

void define_nll(OpRegistry& ops) {
  ops.define<NllAttrs>("nll")
      .summary("Negative log likelihood of target classes; a mean over nothing is 0.")
      .input("x", "log probabilities (N, C, ...), floating point")
      .input("target", "i32 (N, ...), classes in [0, C) or ignore_index; anything else is an error")
      .optional_input("weight", "(C), type of x; a constant of the loss")
      .output("loss", "type of x; shape of target for reduction none, else a scalar")
      .output("total_weight", "sum of the weights of the targets that count; f32 for f16")
      .infer(infer_nll)
      .gradient([](GradientContext& c) {
        c.no_gradient(2);                                   // a constant of the loss
        if (c.grad(0) == nullptr) return c.no_gradient(0);  // the total weight does not depend on x
        if (!c.needs(0)) return;
        c.set(0, c.b.make("nll_grad", {c.in(1), c.in(2), c.out(1), c.grad(0), c.in(0)}, c.attrs<NllAttrs>()));
      })
      .example(example({4, 3}, {-100, "mean"}))
      .example(example({2, 5, 3}, {1, "none"}))
      .example(example({6, 4}, {2, "sum"}));
  ops.define<NllAttrs>("nll_grad")
      .summary("Gradient of nll by its log probabilities.")
      .input("target", "as in nll")
      .optional_input("weight", "as in nll")
      .input("total_weight", "output of nll")
      .input("g", "gradient of the loss")
      .input("x", "log probabilities; only their type is used")
      .output("dx", "shape and type of x")
      .infer(infer_nll_grad)
      .example(
          {.inputs =
               {{DType::kI32, {4}}, {DType::kF32, {3}}, {DType::kF32, {}}, {DType::kF32, {}}, {DType::kF32, {4, 3}}},
           .attrs = Attrs::of(NllAttrs{-100, "mean"}),
           .low = 0.5,
           .high = 2,
           .int_high = 3})
      .example({.inputs = {{DType::kI32, {2, 3}},
                           {DType::kF32, {5}},
                           {DType::kF32, {}},
                           {DType::kF32, {2, 3}},
                           {DType::kF32, {2, 5, 3}}},
                .attrs = Attrs::of(NllAttrs{1, "none"}),
                .low = 0.5,
                .high = 2,
                .int_high = 5});
  define_cross_entropy(ops);
}

}  // namespace aspen
