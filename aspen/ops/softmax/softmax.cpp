// softmax, log_softmax along one axis and the kernels of their gradients.
//   softmax:      y = exp(x - max) / sum(exp(x - max)),   dx = y * (g - sum(y * g))
//   log_softmax:  y = x - max - log(sum(exp(x - max))),   dx = g - exp(y) * sum(g)
#include "aspen/ops/softmax/softmax.h"

#include "aspen/compiler/ir/builder.h"

namespace aspen {
namespace {

std::vector<TensorType> infer_like_first(const InferContext& c) {
  const TensorType& x = c.in(0);
  c.check(is_floating(x.dtype), "takes floating point inputs, not {}.", to_string(x));
  if (x.rank() > 0) normalize_axis(c.attrs<SoftmaxAttrs>().axis, x.shape, c.who());
  for (std::size_t i = 1; i < c.num_inputs(); ++i) {
    c.check(c.in(i) == x, "inputs differ: {} and {}.", to_string(x), to_string(c.in(i)));
  }
  return {x};
}

void define_pair(OpRegistry& ops, const std::string& name, const std::string& summary) {
  ops.define<SoftmaxAttrs>(name)
      .summary(summary)
      .input("x", "floating point")
      .output("y", "shape and type of x")
      .infer(infer_like_first)
      .inplace(0, 0)
      .gradient([name](GradientContext& c) {
        c.set(0, c.b.make(name + "_grad", {c.out(), c.grad()}, c.attrs<SoftmaxAttrs>()));
      })
      .example({.inputs = {{DType::kF32, {3, 5}}}, .attrs = Attrs::of(SoftmaxAttrs{-1})})
      .example({.inputs = {{DType::kF32, {4, 3, 2}}}, .attrs = Attrs::of(SoftmaxAttrs{1})})
      .example({.inputs = {{DType::kF32, {37}}}, .attrs = Attrs::of(SoftmaxAttrs{0})});
  ops.define<SoftmaxAttrs>(name + "_grad")
      .summary("Gradient of " + name + " by its input.")
      .input("y", "output of " + name)
      .input("g", "gradient of y")
      .output("dx", "shape and type of y")
      .infer(infer_like_first)
      .inplace(0, 1)
      .example({.inputs = {{DType::kF32, {3, 5}}, {DType::kF32, {3, 5}}}, .attrs = Attrs::of(SoftmaxAttrs{-1})})
      .example({.inputs = {{DType::kF32, {4, 3, 2}}, {DType::kF32, {4, 3, 2}}}, .attrs = Attrs::of(SoftmaxAttrs{1})});
}

}  // namespace

void define_softmax(OpRegistry& ops) {
  define_pair(ops, "softmax", "Normalises one axis so that it sums to 1.");
  define_pair(ops, "log_softmax", "Logarithm of softmax, computed without forming it.");
}

}  // namespace aspen
