// squareplus, a smooth relu without exponentials: y = (x + sqrt(x^2 + width)) / 2, and the kernel of its gradient.
#include "aspen/ops/squareplus/squareplus.h"

#include "aspen/compiler/ir/builder.h"
#include "aspen/ops/infer.h"

namespace aspen {
namespace {

std::vector<TensorType> infer_squareplus(const InferContext& c) {
  double width = c.attrs<SquareplusAttrs>().width;
  c.check(width > 0, "width is {}; expected a positive number.", width);
  return same_types(ElementKind::kFloating)(c);
}

}  // namespace

void define_squareplus(OpRegistry& ops) {
  Attrs wide = Attrs::of(SquareplusAttrs{}), narrow = Attrs::of(SquareplusAttrs{0.5});
  TensorType plane{DType::kF32, {3, 37}}, number{DType::kF32, {}};
  ops.define<SquareplusAttrs>("squareplus")
      .summary("(x + sqrt(x^2 + width)) / 2: relu with a bend in place of the corner.")
      .input("x", "floating point")
      .output("y", "shape and type of x")
      .infer(infer_squareplus)
      .inplace(0, 0)
      .gradient([](GradientContext& c) {
        c.set(0, c.b.make("squareplus_grad", {c.in(0), c.grad()}, c.attrs<SquareplusAttrs>()));
      })
      .example({.inputs = {plane}, .attrs = wide, .low = -3, .high = 3})
      .example({.inputs = {plane}, .attrs = narrow, .low = -3, .high = 3})
      .example({.inputs = {number}, .attrs = wide});
  ops.define<SquareplusAttrs>("squareplus_grad")
      .summary("Gradient of squareplus by its input.")
      .input("x", "input of squareplus")
      .input("g", "gradient of its output")
      .output("dx", "shape and type of x")
      .infer(infer_squareplus)
      .inplace(0, 1)
      .example({.inputs = {plane, plane}, .attrs = narrow, .low = -3, .high = 3});
}

}  // namespace aspen
