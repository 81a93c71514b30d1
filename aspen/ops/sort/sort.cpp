// sort along one axis, stable in both directions, NaN largest. Gradient: every g goes back to where its value came
// from, dx = scatter(0, indices, g).
#include "aspen/ops/sort/sort.h"

#include "aspen/ops/build.h"
#include "aspen/ops/index/index.h"

namespace aspen {
namespace {

std::vector<TensorType> infer_sort(const InferContext& c) {
  const auto& attrs = c.attrs<SortAttrs>();
  Shape shape = c.in(0).shape;
  std::int64_t number = 1;  // a scalar is a line of one
  std::int64_t& size = shape.empty() ? number : shape[normalize_axis(attrs.axis, shape, c.who())];
  c.check(attrs.first >= -1 && attrs.first <= size && (!shape.empty() || attrs.wanted(1) == 1),
          "the first {} of a line of {} are not to be had; expected 0 to {}, or -1 for all.", attrs.first, size, size);
  size = attrs.wanted(size);
  return {{c.in(0).dtype, shape}, {DType::kI32, shape}};
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
      .summary("Sorts along an axis, or finds the first few; equal elements keep their order, NaN is largest.")
      .input("x", "any type")
      .output("values", "shape and type of x, along the axis as many as are wanted")
      .output("indices", "i32: where along the axis each value was")
      .infer(infer_sort)
      .gradient(sort_gradient)
      .example({.inputs = {{DType::kF32, {3, 7}}}, .attrs = Attrs::of(SortAttrs{-1, false})})
      .example({.inputs = {{DType::kF32, {4, 3, 5}}}, .attrs = Attrs::of(SortAttrs{1, true})})
      .example({.inputs = {{DType::kF32, {}}}, .attrs = Attrs::of(SortAttrs{-1, false})})
      .example({.inputs = {{DType::kI32, {29}}}, .attrs = Attrs::of(SortAttrs{0, true}), .int_high = 5})
      .example({.inputs = {{DType::kBool, {29}}}, .attrs = Attrs::of(SortAttrs{0, false})})
      .example({.inputs = {{DType::kF32, {3, 300}}}, .attrs = Attrs::of(SortAttrs{1, true})})
      .example({.inputs = {{DType::kI16, {300, 2}}}, .attrs = Attrs::of(SortAttrs{0, false}), .int_high = 40})
      .example({.inputs = {{DType::kU8, {2, 400}}}, .attrs = Attrs::of(SortAttrs{1, false}), .int_high = 200})
      .example({.inputs = {{DType::kF32, {4, 40, 3}}}, .attrs = Attrs::of(SortAttrs{1, true, 5})})
      .example({.inputs = {{DType::kF32, {2, 300}}}, .attrs = Attrs::of(SortAttrs{1, false, 3})})
      .example({.inputs = {{DType::kI32, {300}}}, .attrs = Attrs::of(SortAttrs{0, true, 7}), .int_high = 9});
}

}  // namespace aspen
