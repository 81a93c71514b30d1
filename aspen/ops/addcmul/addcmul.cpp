// addcmul: x + scale * a * b; the three broadcast together.
//   dx = g,  da = scale * g * b,  db = scale * g * a
#include "aspen/ops/addcmul/addcmul.h"

#include "aspen/ops/build.h"
#include "aspen/ops/infer.h"

namespace aspen {
namespace {

void addcmul_gradient(GradientContext& c) {
  if (c.needs(0)) c.set(0, build::reduce_to(c.b, c.grad(), c.in(0)->shape()));
  const double scale = c.attrs<AddcmulAttrs>().scale;
  for (std::size_t i : {1, 2}) {
    if (!c.needs(i)) continue;
    Value* slope = build::mul(c.b, c.grad(), c.in(3 - i));
    if (scale != 1) slope = build::mul(c.b, slope, scale);
    c.set(i, build::reduce_to(c.b, slope, c.in(i)->shape()));
  }
}

}  // namespace

void define_addcmul(OpRegistry& ops) {
  OpDef& op = ops.define<AddcmulAttrs>("addcmul")
                  .summary("x + scale * a * b")
                  .input("x", "floating point")
                  .input("a", "type of x; shapes broadcast")
                  .input("b", "type of x; shapes broadcast")
                  .output("y", "type of x, broadcast shape")
                  .infer(elementwise(ElementKind::kFloating))
                  .broadcasts()
                  .quick()
                  .inplace(0, 0)
                  .inplace(0, 1)
                  .inplace(0, 2)
                  .gradient(addcmul_gradient);
  auto example = [&](Shape x, Shape a, Shape b, double scale) {
    op.example({.inputs = {{DType::kF32, std::move(x)}, {DType::kF32, std::move(a)}, {DType::kF32, std::move(b)}},
                .attrs = Attrs::of(AddcmulAttrs{scale})});
  };
  example({3, 37}, {3, 37}, {3, 37}, 0.5);
  example({37}, {3, 37}, {3, 1}, 1);
  example({}, {3, 1}, {1, 37}, -2);
  example({3, 1}, {}, {3, 37}, 0.5);
}

}  // namespace aspen
