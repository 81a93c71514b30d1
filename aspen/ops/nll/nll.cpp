// nll: negative log likelihood of target classes. With w the class weights (1 when absent) and t the target,
//   none: -w[t] * x[t];   sum: their sum;   mean: their sum / sum of w[t];   ignored targets count nothing.
//   dx[t] = -w[t] * g, divided by the total weight for mean; 0 everywhere else.
#include "aspen/ops/nll/nll.h"

#include "aspen/ops/build.h"

namespace aspen {
namespace {

// Checks log probabilities, target and weight against one another; returns the type of the loss.
TensorType loss_of(const InferContext& c, const TensorType& x, const TensorType& target, const TensorType* weight) {
  const auto& reduction = c.attrs<NllAttrs>().reduction;
  c.check(is_floating(x.dtype) && x.rank() >= 2, "takes floating point log probabilities (N, C, ...), not {}.",
          to_string(x));
  TensorType expected{DType::kI32, x.shape};
  expected.shape.erase(expected.shape.begin() + 1);
  c.check(target == expected, "the target is {}, expected {} for log probabilities {}.", to_string(target),
          to_string(expected), to_string(x));
  TensorType classes{x.dtype, {x.shape[1]}};
  c.check(weight == nullptr || *weight == classes, "the weight is {}, expected {}, one per class.",
          weight == nullptr ? "" : to_string(*weight), to_string(classes));
  c.check(reduction == "none" || reduction == "mean" || reduction == "sum",
          "unknown reduction \"{}\"; expected none, mean or sum.", reduction);
  return {x.dtype, reduction == "none" ? target.shape : Shape{}};
}

TensorType total_of(const TensorType& x) { return {is_narrow_float(x.dtype) ? DType::kF32 : x.dtype, {}}; }

std::vector<TensorType> infer_nll(const InferContext& c) {
  return {loss_of(c, c.in(0), c.in(1), c.has(2) ? &c.in(2) : nullptr), total_of(c.in(0))};
}

std::vector<TensorType> infer_nll_grad(const InferContext& c) {
  const TensorType& x = c.in(4);
  TensorType loss = loss_of(c, x, c.in(0), c.has(1) ? &c.in(1) : nullptr);
  c.check(c.in(2) == total_of(x), "the total weight is {}, expected {}.", to_string(c.in(2)), to_string(total_of(x)));
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
}

}  // namespace aspen
