// sort along one axis, stable in both directions, NaN largest. Gradient: every g goes back to where its value came
// from, dx = scatter(0, indices, g).
#include "aspen/ops/sort/sort.h"

#include "aspen/ops/build.h"
#include "aspen/ops/index/index.h"

namespace aspen {
namespace {

std::vector<TensorType> infer_sort(const InferContext& c) {
  if (c.in(0).rank() > 0) normalize_axis(c.attrs<SortAttrs>().axis, c.in(0).shape, c.who());
  return {c.in(0), {DType::kI32, c.in(0).shape}};
}

void sort_gradient(GradientContext& c) {
  if (c.in(0)->rank() == 0) return c.set(0, c.grad(0));
  std::int64_t axis = normalize_axis(c.attrs<SortAttrs>().axis, c.in(0)->shape(), "sort");
  Value* zero = build::full_like(c.b, c.in(0), 0);
  c.set(0, c.b.make("scatter", {zero, c.out(1), c.grad(0)}, ScatterAttrs{axis, "set"}));
}

}  // namespace

void define_sort(OpRegistry& ops) {
  ops.define<SortAttrs>("sort")
      .summary("Sorts along an axis; equal elements keep their order, NaN is largest.")
      .input("x", "any type")
      .output("values", "shape and type of x")
      .output("indices", "i32: where along the axis each value was")
      .infer(infer_sort)
      .gradient(sort_gradient)
      .example({.inputs = {{DType::kF32, {3, 7}}}, .attrs = Attrs::of(SortAttrs{-1, false})})
      .example({.inputs = {{DType::kF32, {4, 3, 5}}}, .attrs = Attrs::of(SortAttrs{1, true})})
      .example({.inputs = {{DType::kF32, {}}}, .attrs = Attrs::of(SortAttrs{-1, false})})
      .example({.inputs = {{DType::kI32, {29}}}, .attrs = Attrs::of(SortAttrs{0, true}), .int_high = 5})
      .example({.inputs = {{DType::kBool, {29}}}, .attrs = Attrs::of(SortAttrs{0, false})});
}

}  // namespace aspen
