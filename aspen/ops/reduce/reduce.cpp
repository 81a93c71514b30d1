// Reductions over axes, positions of extremes, and running sums and products along one axis.
// In the gradient formulas x is the input, y the output and g the gradient of y.
#include "aspen/ops/reduce/reduce.h"

#include <algorithm>

#include "aspen/ops/build.h"
#include "aspen/ops/infer.h"

namespace aspen {
namespace {

void check_axes(const InferContext& c, const std::vector<std::int64_t>& axes) {
  for (auto axis : axes) normalize_axis(axis, c.in(0).shape, c.who());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    c.check(axes[i] >= 0 && (i == 0 || axes[i - 1] < axes[i]), "axes {} must be sorted, unique and not negative.",
            to_string(axes));
  }
}

TensorType reduced(TensorType type, const std::vector<std::int64_t>& axes, bool keep_axes) {
  for (auto axis : axes) type.shape[axis] = 1;
  if (keep_axes) return type;
  for (std::size_t i = axes.size(); i-- > 0;) type.shape.erase(type.shape.begin() + axes[i]);
  return type;
}

InferFunction reduction(ElementKind kind) {
  return [kind](const InferContext& c) {
    const auto& attrs = c.attrs<ReduceAttrs>();
    check_kind(c, 0, kind);
    check_axes(c, attrs.axes);
    return std::vector<TensorType>{reduced(c.in(0), attrs.axes, attrs.keep_axes)};
  };
}

// Sums and products of nothing are 0 and 1, any and all of nothing false and true; a largest number of nothing is not.
std::vector<TensorType> infer_extremum(const InferContext& c) {
  std::vector<TensorType> result = reduction(ElementKind::kAny)(c);
  for (auto axis : c.attrs<ReduceAttrs>().axes) {
    c.check(c.in(0).shape[axis] > 0 || c.in(0).dtype == DType::kBool || result[0].numel() == 0,
            "axis {} of {} has no elements to choose from.", axis, to_string(c.in(0)));
  }
  return result;
}

// A value of the op's output shape, with the reduced axes put back as size 1.
Value* restore_axes(GradientContext& c, Value* value) {
  const auto& attrs = c.attrs<ReduceAttrs>();
  return build::reshape(c.b, value, reduced(c.in(0)->type(), attrs.axes, true).shape);
}

void sum_gradient(GradientContext& c) { c.set(0, build::broadcast(c.b, restore_axes(c, c.grad()), c.in(0)->shape())); }

void prod_gradient(GradientContext& c) {
  c.set(0, c.b.make("reduce_prod_grad", {c.in(0), restore_axes(c, c.grad())}, c.attrs<ReduceAttrs>()));
}

// g * [x == y] / number of ties
void extremum_gradient(GradientContext& c) {
  Value* is_winner = build::binary(c.b, "eq", c.in(0), restore_axes(c, c.out()));
  Value* share = build::cast(c.b, is_winner, c.in(0)->dtype());
  Value* ties = build::reduce_sum(c.b, share, c.attrs<ReduceAttrs>().axes, true);
  c.set(0, build::mul(c.b, share, build::div(c.b, restore_axes(c, c.grad()), ties)));
}

OpDef& define_reduction(OpRegistry& ops, const char* name, const char* summary, ElementKind kind, double low,
                        double high) {
  OpDef& op = ops.define<ReduceAttrs>(name)
                  .summary(summary)
                  .input("x", std::string(name_of(kind)))
                  .output("y", "type of x, the axes gone or of size 1");
  auto example = [&](TensorType type, std::vector<std::int64_t> axes, bool keep_axes) {
    op.example({.inputs = {std::move(type)},
                .attrs = Attrs::of(ReduceAttrs{std::move(axes), keep_axes}),
                .low = low,
                .high = high,
                .int_low = -2,
                .int_high = 3});
  };
  example({DType::kF32, {3, 5}}, {1}, false);
  example({DType::kF32, {3, 5}}, {0}, true);
  example({DType::kF32, {2, 3, 4, 5}}, {0, 2, 3}, false);
  example({DType::kF32, {2, 3, 4}}, {0, 1, 2}, false);
  example({DType::kF32, {2, 3}}, {}, false);
  example({DType::kI32, {4, 7}}, {1}, false);
  example({DType::kI32, {3, 5, 19}}, {0, 1}, true);
  example({DType::kI32, {3, 5, 7}}, {0, 1, 2}, false);
  return op;
}

void define_reductions(OpRegistry& ops) {
  define_reduction(ops, "reduce_sum", "Sum over axes; half adds up in float, integers wrap.", ElementKind::kNumeric, -1,
                   1)
      .infer(reduction(ElementKind::kNumeric))
      .gradient(sum_gradient);
  define_reduction(ops, "reduce_prod", "Product over axes; its gradient is exact with zeros.", ElementKind::kNumeric,
                   0.5, 1.5)
      .infer(reduction(ElementKind::kNumeric))
      .gradient(prod_gradient);
  define_reduction(ops, "reduce_max", "Largest over axes; NaN wins, ties share the gradient. Of bools: any.",
                   ElementKind::kAny, -1, 1)
      .infer(infer_extremum)
      .gradient(extremum_gradient)
      .example({.inputs = {{DType::kBool, {5, 3}}}, .attrs = Attrs::of(ReduceAttrs{{1}, false})})
      .example({.inputs = {{DType::kBool, {5, 3, 19}}}, .attrs = Attrs::of(ReduceAttrs{{0, 1}, false})});
  define_reduction(ops, "reduce_min", "Smallest over axes; NaN wins, ties share the gradient. Of bools: all.",
                   ElementKind::kAny, -1, 1)
      .infer(infer_extremum)
      .gradient(extremum_gradient)
      .example({.inputs = {{DType::kBool, {5, 3}}}, .attrs = Attrs::of(ReduceAttrs{{1}, false})})
      .example({.inputs = {{DType::kBool, {5, 3, 19}}}, .attrs = Attrs::of(ReduceAttrs{{0, 1}, false})});
  ops.define<ReduceAttrs>("reduce_prod_grad")
      .summary("Gradient of reduce_prod: g times the product of the other elements.")
      .input("x", "input of reduce_prod")
      .input("g", "gradient of its output, the reduced axes of size 1")
      .output("dx", "shape and type of x")
      .infer([](const InferContext& c) {
        check_kind(c, 0, ElementKind::kFloating);
        check_axes(c, c.attrs<ReduceAttrs>().axes);
        TensorType expected = reduced(c.in(0), c.attrs<ReduceAttrs>().axes, true);
        c.check(c.in(1) == expected, "the gradient must be {}, not {}.", to_string(expected), to_string(c.in(1)));
        return std::vector<TensorType>{c.in(0)};
      })
      .example({.inputs = {{DType::kF32, {2, 3, 4}}, {DType::kF32, {1, 3, 1}}},
                .attrs = Attrs::of(ReduceAttrs{{0, 2}, false})});
}

void define_argreduce(OpRegistry& ops) {
  OpDef& op =
      ops.define<ArgReduceAttrs>("argreduce")
          .summary("Position of the first largest or smallest element along an axis; NaN wins.")
          .input("x", "any type")
          .output("index", "i32, the axis gone or of size 1")
          .infer([](const InferContext& c) {
            const auto& attrs = c.attrs<ArgReduceAttrs>();
            if (c.in(0).rank() == 0) return std::vector<TensorType>{{DType::kI32, {}}};
            std::int64_t axis = normalize_axis(attrs.axis, c.in(0).shape, c.who());
            c.check(c.in(0).shape[axis] > 0, "axis {} of {} has no elements to choose from.", axis, to_string(c.in(0)));
            return std::vector<TensorType>{reduced({DType::kI32, c.in(0).shape}, {axis}, attrs.keep_axis)};
          });
  for (bool max : {true, false}) {
    op.example({.inputs = {{DType::kF32, {5, 7}}}, .attrs = Attrs::of(ArgReduceAttrs{1, max, false})})
        .example({.inputs = {{DType::kF32, {3, 4, 5}}}, .attrs = Attrs::of(ArgReduceAttrs{-2, max, true})})
        .example({.inputs = {{DType::kF32, {2, 150}}}, .attrs = Attrs::of(ArgReduceAttrs{-1, max, false})})
        .example({.inputs = {{DType::kI32, {9}}}, .attrs = Attrs::of(ArgReduceAttrs{0, max, false}), .int_high = 4})
        .example(
            {.inputs = {{DType::kI32, {7, 19}}}, .attrs = Attrs::of(ArgReduceAttrs{0, max, false}), .int_high = 4});
  }
}

std::vector<TensorType> infer_scan(const InferContext& c) {
  check_kind(c, 0, ElementKind::kNumeric);
  if (c.in(0).rank() > 0) normalize_axis(c.attrs<ScanAttrs>().axis, c.in(0).shape, c.who());
  for (std::size_t i = 1; i < c.num_inputs(); ++i) {
    c.check(c.in(i) == c.in(0), "inputs differ: {} and {}.", to_string(c.in(0)), to_string(c.in(i)));
  }
  return {c.in(0)};
}

std::vector<TensorType> infer_cumprod(const InferContext& c) {
  const auto& attrs = c.attrs<ScanAttrs>();
  c.check(!attrs.reverse && !attrs.exclusive, "has no reverse or exclusive form; reverse the axis around it.");
  return infer_scan(c);
}

void define_scans(OpRegistry& ops) {
  ops.define<ScanAttrs>("cumsum")
      .summary("Running sum along an axis; exclusive: of the elements before, reverse: from the end.")
      .input("x", "floating point or integer")
      .output("y", "shape and type of x")
      .infer(infer_scan)
      .inplace(0, 0)
      .gradient([](GradientContext& c) {
        ScanAttrs attrs = c.attrs<ScanAttrs>();
        attrs.reverse = !attrs.reverse;
        c.set(0, c.b.make("cumsum", {c.grad()}, attrs));
      })
      .example({.inputs = {{DType::kF32, {3, 5}}}, .attrs = Attrs::of(ScanAttrs{1, false, false})})
      .example({.inputs = {{DType::kF32, {3, 5}}}, .attrs = Attrs::of(ScanAttrs{0, true, false})})
      .example({.inputs = {{DType::kF32, {2, 4, 3}}}, .attrs = Attrs::of(ScanAttrs{-2, false, true})})
      .example({.inputs = {{DType::kF32, {7}}}, .attrs = Attrs::of(ScanAttrs{0, true, true})})
      .example({.inputs = {{DType::kF32, {11, 3}}}, .attrs = Attrs::of(ScanAttrs{1, true, false})})
      .example({.inputs = {{DType::kI32, {7}}}, .attrs = Attrs::of(ScanAttrs{0, false, false}), .int_high = 5})
      .example({.inputs = {{DType::kI32, {5, 19}}}, .attrs = Attrs::of(ScanAttrs{0, true, true}), .int_high = 5});
  ops.define<ScanAttrs>("cumprod")
      .summary("Running product along an axis; its gradient is exact with zeros.")
      .input("x", "floating point or integer")
      .output("y", "shape and type of x")
      .infer(infer_cumprod)
      .inplace(0, 0)
      .gradient([](GradientContext& c) {
        c.set(0, c.b.make("cumprod_grad", {c.in(0), c.out(), c.grad()}, c.attrs<ScanAttrs>()));
      })
      .example({.inputs = {{DType::kF32, {3, 5}}}, .attrs = Attrs::of(ScanAttrs{1, false, false})})
      .example({.inputs = {{DType::kF32, {2, 4, 3}}}, .attrs = Attrs::of(ScanAttrs{1, false, false})})
      .example({.inputs = {{DType::kI32, {7}}},
                .attrs = Attrs::of(ScanAttrs{0, false, false}),
                .int_low = 1,
                .int_high = 4});
  // dx[k] = y[k-1] * s[k] with s[k] = g[k] + x[k+1] * s[k+1]: no division, so zeros need no care.
  ops.define<ScanAttrs>("cumprod_grad")
      .summary("Gradient of cumprod by its input.")
      .input("x", "input of cumprod")
      .input("y", "output of cumprod")
      .input("g", "gradient of y")
      .output("dx", "shape and type of x")
      .infer([](const InferContext& c) {
        check_kind(c, 0, ElementKind::kFloating);
        c.check(c.in(1) == c.in(0) && c.in(2) == c.in(0), "takes {} three times, not {} and {}.", to_string(c.in(0)),
                to_string(c.in(1)), to_string(c.in(2)));
        return infer_cumprod(c);
      })
      .example({.inputs = {{DType::kF32, {3, 5}}, {DType::kF32, {3, 5}}, {DType::kF32, {3, 5}}},
                .attrs = Attrs::of(ScanAttrs{1, false, false})})
      .example({.inputs = {{DType::kF32, {4, 19}}, {DType::kF32, {4, 19}}, {DType::kF32, {4, 19}}},
                .attrs = Attrs::of(ScanAttrs{0, false, false})});
}

}  // namespace

void define_reduce(OpRegistry& ops) {
  define_reductions(ops);
  define_argreduce(ops);
  define_scans(ops);
}

}  // namespace aspen
