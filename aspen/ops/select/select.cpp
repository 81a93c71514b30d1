// select: a where the condition holds, else b; the three broadcast together.
//   da = condition ? g : 0,  db = condition ? 0 : g
#include "aspen/ops/build.h"
#include "aspen/ops/infer.h"

namespace aspen {
namespace {

std::vector<TensorType> infer_select(const InferContext& c) {
  c.check(c.in(0).dtype == DType::kBool, "the condition must be bool, not {}; compare it with 0.", to_string(c.in(0)));
  c.check(c.in(1).dtype == c.in(2).dtype, "element types differ: {} and {}; cast one of them.", to_string(c.in(1)),
          to_string(c.in(2)));
  Shape shape = broadcast_shapes(c.in(1).shape, c.in(2).shape, c.who());
  return {{c.in(1).dtype, broadcast_shapes(c.in(0).shape, shape, c.who())}};
}

void select_gradient(GradientContext& c) {
  Value* zero = build::scalar(c.b, c.grad()->dtype(), 0);
  if (c.needs(1)) {
    c.set(1, build::reduce_to(c.b, build::select(c.b, c.in(0), c.grad(), zero), c.in(1)->shape()));
  }
  if (c.needs(2)) {
    c.set(2, build::reduce_to(c.b, build::select(c.b, c.in(0), zero, c.grad()), c.in(2)->shape()));
  }
}

}  // namespace

void define_select(OpRegistry& ops) {
  OpDef& select = ops.define("select")
                      .summary("Chooses element by element: a where the condition is true, else b.")
                      .input("condition", "bool")
                      .input("a", "any type")
                      .input("b", "type of a; all three shapes broadcast")
                      .output("y", "type of a, broadcast shape")
                      .infer(infer_select)
                      .broadcasts()
                      .quick()
                      .inplace(0, 1)
                      .inplace(0, 2)
                      .gradient(select_gradient);
  auto example = [&](DType type, Shape condition, Shape left, Shape right) {
    select.example({.inputs = {{DType::kBool, condition}, {type, left}, {type, right}}});
  };
  example(DType::kF32, {5, 7}, {5, 7}, {5, 7});
  example(DType::kF32, {3, 1}, {2, 3, 4}, {});
  example(DType::kF32, {2, 3, 4}, {}, {4});
  example(DType::kI32, {6}, {2, 6}, {1});
  example(DType::kI32, {3, 37}, {3, 1}, {3, 37});
  example(DType::kU8, {37}, {37}, {37});
  example(DType::kBool, {37}, {3, 37}, {});
}

}  // namespace aspen
