// Ops that move elements and never look at them: reshape, transpose, broadcast, slice, slice_update, pad, concat,
// reverse. They take every element type.
#include "aspen/ops/shape/shape.h"

#include <algorithm>

#include "aspen/ops/build.h"
#include "aspen/ops/shape/pad_range.h"

namespace aspen {
namespace {

// -- shape rules ------------------------------------------------------------------------------------------------

void check_entries(const InferContext& c, const char* what, const std::vector<std::int64_t>& entries) {
  c.check(std::ssize(entries) == c.in(0).rank(), "{} has {} entries, but the input is {}; expected one per axis.", what,
          entries.size(), to_string(c.in(0)));
}

void check_extents(const InferContext& c, const Shape& shape) {
  c.check(std::all_of(shape.begin(), shape.end(), [](auto n) { return n >= 0; }), "shape {} has a negative extent.",
          to_string(shape));
}

std::vector<TensorType> infer_reshape(const InferContext& c) {
  const Shape& shape = c.attrs<ReshapeAttrs>().shape;
  check_extents(c, shape);
  c.check(numel(shape) == c.in(0).numel(), "cannot view {} ({} elements) as {} ({} elements).", to_string(c.in(0)),
          c.in(0).numel(), to_string(shape), numel(shape));
  return {{c.in(0).dtype, shape}};
}

std::vector<TensorType> infer_transpose(const InferContext& c) {
  const auto& permutation = c.attrs<TransposeAttrs>().permutation;
  check_entries(c, "permutation", permutation);
  auto sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  for (std::int64_t i = 0; i < c.in(0).rank(); ++i) {
    c.check(sorted[i] == i, "{} is not a permutation of the axes of {}.", to_string(permutation), to_string(c.in(0)));
  }
  Shape shape;
  for (std::int64_t axis : permutation) shape.push_back(c.in(0).shape[axis]);
  return {{c.in(0).dtype, shape}};
}

std::vector<TensorType> infer_broadcast(const InferContext& c) {
  const Shape& shape = c.attrs<BroadcastAttrs>().shape;
  check_extents(c, shape);
  auto added = std::ssize(shape) - c.in(0).rank();
  bool fits = added >= 0;
  for (std::int64_t i = 0; fits && i < c.in(0).rank(); ++i) {
    fits = c.in(0).shape[i] == 1 || c.in(0).shape[i] == shape[i + added];
  }
  c.check(fits, "cannot broadcast {} to {}; an axis must be 1 or keep its extent.", to_string(c.in(0)),
          to_string(shape));
  return {{c.in(0).dtype, shape}};
}

Shape sliced_shape(const InferContext& c) {
  const auto& attrs = c.attrs<SliceAttrs>();
  check_entries(c, "starts", attrs.starts);
  check_entries(c, "ends", attrs.ends);
  check_entries(c, "steps", attrs.steps);
  Shape shape;
  for (std::int64_t i = 0; i < c.in(0).rank(); ++i) {
    auto start = attrs.starts[i], end = attrs.ends[i], step = attrs.steps[i];
    c.check(0 <= start && start <= end && end <= c.in(0).shape[i] && step >= 1,
            "{}:{}:{} is out of range for axis {} of {}; expected 0 <= start <= end <= size and step >= 1.", start, end,
            step, i, to_string(c.in(0)));
    shape.push_back((end - start + step - 1) / step);
  }
  return shape;
}

std::vector<TensorType> infer_slice(const InferContext& c) { return {{c.in(0).dtype, sliced_shape(c)}}; }

std::vector<TensorType> infer_slice_update(const InferContext& c) {
  TensorType expected{c.in(0).dtype, sliced_shape(c)};
  c.check(c.in(1) == expected, "the update is {}, but the places to write are {}.", to_string(c.in(1)),
          to_string(expected));
  return {c.in(0)};
}

std::vector<TensorType> infer_pad(const InferContext& c) {
  const auto& attrs = c.attrs<PadAttrs>();
  check_entries(c, "low", attrs.low);
  check_entries(c, "high", attrs.high);
  check_entries(c, "interior", attrs.interior);
  Shape shape;
  for (std::int64_t i = 0; i < c.in(0).rank(); ++i) {
    c.check(attrs.interior[i] >= 0, "interior {} of axis {} is negative.", attrs.interior[i], i);
    auto extent = padded_extent(attrs, i, c.in(0).shape[i]);
    c.check(extent >= 0, "low {} and high {} crop more than axis {} of {} holds.", attrs.low[i], attrs.high[i], i,
            to_string(c.in(0)));
    shape.push_back(extent);
  }
  return {{c.in(0).dtype, shape}};
}

std::vector<TensorType> infer_concat(const InferContext& c) {
  c.check(c.num_inputs() > 0, "takes at least one input.");
  TensorType result = c.in(0);
  auto axis = normalize_axis(c.attrs<ConcatAttrs>().axis, result.shape, c.who());
  for (std::size_t i = 1; i < c.num_inputs(); ++i) {
    TensorType other = c.in(i);
    bool fits = other.rank() == result.rank();
    if (fits) {
      result.shape[axis] += other.shape[axis];
      other.shape[axis] = result.shape[axis];
    }
    c.check(fits && other == result,
            "input {} is {}, which does not fit {} along axis {}; all other extents and the "
            "element types must agree.",
            i, to_string(c.in(i)), to_string(c.in(0)), axis);
  }
  return {result};
}

std::vector<TensorType> infer_reverse(const InferContext& c) {
  for (auto axis : c.attrs<ReverseAttrs>().axes) normalize_axis(axis, c.in(0).shape, c.who());
  return {c.in(0)};
}

// -- gradients --------------------------------------------------------------------------------------------------

void transpose_gradient(GradientContext& c) {
  const auto& permutation = c.attrs<TransposeAttrs>().permutation;
  std::vector<std::int64_t> inverse(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) inverse[permutation[i]] = static_cast<std::int64_t>(i);
  c.set(0, build::transpose(c.b, c.grad(), inverse));
}

// Puts g back where the slice came from: pad(g, low = start, interior = step - 1).
void slice_gradient(GradientContext& c) {
  const auto& attrs = c.attrs<SliceAttrs>();
  const Shape& picked = c.out()->shape();
  if (numel(picked) == 0) return c.zero(0);
  PadAttrs pad{attrs.starts, {}, {}, 0};
  for (std::size_t i = 0; i < picked.size(); ++i) {
    pad.high.push_back(c.in(0)->shape()[i] - (attrs.starts[i] + (picked[i] - 1) * attrs.steps[i] + 1));
    pad.interior.push_back(attrs.steps[i] - 1);
  }
  c.set(0, c.b.make("pad", {c.grad()}, pad));
}

void slice_update_gradient(GradientContext& c) {
  const auto& attrs = c.attrs<SliceAttrs>();
  if (c.needs(0)) c.set(0, c.b.make("slice_update", {c.grad(), build::full_like(c.b, c.in(1), 0)}, attrs));
  if (c.needs(1)) c.set(1, c.b.make("slice", {c.grad()}, attrs));
}

// Reads g where the elements went; those that were cropped away get zero.
void pad_gradient(GradientContext& c) {
  const auto& attrs = c.attrs<PadAttrs>();
  const Shape& shape = c.in(0)->shape();
  SliceAttrs slice;
  PadAttrs pad{{}, {}, Shape(shape.size(), 0), 0};
  bool cropped = false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    PadRange range = pad_range(attrs, i, shape[i]);
    if (range.count() == 0) return c.zero(0);
    slice.starts.push_back(range.target(range.begin));
    slice.ends.push_back(range.target(range.end - 1) + 1);
    slice.steps.push_back(range.step);
    pad.low.push_back(range.begin);
    pad.high.push_back(shape[i] - range.end);
    cropped = cropped || range.count() != shape[i];
  }
  Value* kept = c.b.make("slice", {c.grad()}, slice);
  c.set(0, cropped ? c.b.make("pad", {kept}, pad) : kept);
}

void concat_gradient(GradientContext& c) {
  auto axis = normalize_axis(c.attrs<ConcatAttrs>().axis, c.out()->shape(), "concat");
  std::int64_t start = 0;
  for (std::size_t i = 0; i < c.op.num_inputs(); ++i) {
    std::int64_t end = start + c.in(i)->shape()[axis];
    if (c.needs(i)) c.set(i, build::slice(c.b, c.grad(), axis, start, end));
    start = end;
  }
}

// -- definitions ------------------------------------------------------------------------------------------------

void define_layout(OpRegistry& ops) {
  ops.define<ReshapeAttrs>("reshape")
      .summary("The same elements in the same order under another shape.")
      .input("x", "any type")
      .output("y", "type of x, attribute shape")
      .infer(infer_reshape)
      .alias()
      .gradient([](GradientContext& c) { c.set(0, build::reshape(c.b, c.grad(), c.in(0)->shape())); })
      .example({.inputs = {{DType::kF32, {2, 6}}}, .attrs = Attrs::of(ReshapeAttrs{{3, 4}})})
      .example({.inputs = {{DType::kF32, {1}}}, .attrs = Attrs::of(ReshapeAttrs{{}})});
  ops.define<TransposeAttrs>("transpose")
      .summary("Permutes the axes: output axis i is input axis permutation[i].")
      .input("x", "any type")
      .output("y", "type of x")
      .infer(infer_transpose)
      .gradient(transpose_gradient)
      .example({.inputs = {{DType::kF32, {3, 4}}}, .attrs = Attrs::of(TransposeAttrs{{1, 0}})})
      .example({.inputs = {{DType::kF32, {2, 3, 4, 5}}}, .attrs = Attrs::of(TransposeAttrs{{2, 0, 3, 1}})})
      .example({.inputs = {{DType::kF16, {2, 3, 4}}}, .attrs = Attrs::of(TransposeAttrs{{0, 2, 1}})})
      .example({.inputs = {{DType::kBool, {2, 3, 4}}}, .attrs = Attrs::of(TransposeAttrs{{2, 1, 0}})})
      .example({.inputs = {{DType::kF32, {19, 21}}}, .attrs = Attrs::of(TransposeAttrs{{1, 0}})})
      .example({.inputs = {{DType::kF32, {3, 17, 2}}}, .attrs = Attrs::of(TransposeAttrs{{1, 0, 2}})})
      .example({.inputs = {{DType::kI16, {2, 37, 19}}}, .attrs = Attrs::of(TransposeAttrs{{2, 0, 1}}), .int_high = 999})
      .example({.inputs = {{DType::kU8, {35, 67}}}, .attrs = Attrs::of(TransposeAttrs{{1, 0}}), .int_high = 200})
      .example({.inputs = {{DType::kF32, {3, 50}}}, .attrs = Attrs::of(TransposeAttrs{{1, 0}})});
  ops.define<BroadcastAttrs>("broadcast")
      .summary("Repeats along axes of extent 1 and along new leading axes.")
      .input("x", "any type")
      .output("y", "type of x, attribute shape")
      .infer(infer_broadcast)
      .gradient([](GradientContext& c) { c.set(0, build::reduce_to(c.b, c.grad(), c.in(0)->shape())); })
      .example({.inputs = {{DType::kF32, {3, 1}}}, .attrs = Attrs::of(BroadcastAttrs{{2, 3, 4}})})
      .example({.inputs = {{DType::kF32, {}}}, .attrs = Attrs::of(BroadcastAttrs{{5}})})
      .example({.inputs = {{DType::kI32, {1, 4}}}, .attrs = Attrs::of(BroadcastAttrs{{3, 4}}), .int_high = 9})
      .example({.inputs = {{DType::kBool, {3, 1, 5}}}, .attrs = Attrs::of(BroadcastAttrs{{3, 19, 5}})})
      .example({.inputs = {{DType::kU8, {7, 1}}}, .attrs = Attrs::of(BroadcastAttrs{{7, 33}}), .int_high = 200});
  ops.define<ReverseAttrs>("reverse")
      .summary("Reverses the order along the axes.")
      .input("x", "any type")
      .output("y", "shape and type of x")
      .infer(infer_reverse)
      .gradient([](GradientContext& c) { c.set(0, c.b.make("reverse", {c.grad()}, c.attrs<ReverseAttrs>())); })
      .example({.inputs = {{DType::kF32, {3, 4}}}, .attrs = Attrs::of(ReverseAttrs{{1}})})
      .example({.inputs = {{DType::kF32, {2, 3, 4}}}, .attrs = Attrs::of(ReverseAttrs{{0, -1}})})
      .example({.inputs = {{DType::kI16, {3, 37}}}, .attrs = Attrs::of(ReverseAttrs{{1}}), .int_high = 999})
      .example({.inputs = {{DType::kU8, {50, 3}}}, .attrs = Attrs::of(ReverseAttrs{{1}}), .int_high = 200});
}

void define_parts(OpRegistry& ops) {
  ops.define<SliceAttrs>("slice")
      .summary("The elements at start, start + step, ... before end, along every axis.")
      .input("x", "any type")
      .output("y", "type of x")
      .infer(infer_slice)
      .gradient(slice_gradient)
      .example({.inputs = {{DType::kF32, {4, 6}}}, .attrs = Attrs::of(SliceAttrs{{1, 0}, {3, 6}, {1, 1}})})
      .example({.inputs = {{DType::kF32, {5, 8}}}, .attrs = Attrs::of(SliceAttrs{{0, 1}, {5, 8}, {2, 3}})})
      .example({.inputs = {{DType::kI32, {7}}}, .attrs = Attrs::of(SliceAttrs{{2}, {7}, {2}}), .int_high = 9})
      .example(
          {.inputs = {{DType::kU8, {6, 41}}}, .attrs = Attrs::of(SliceAttrs{{1, 3}, {6, 41}, {1, 2}}), .int_high = 200})
      .example({.inputs = {{DType::kF32, {4, 3}}}, .attrs = Attrs::of(SliceAttrs{{2, 0}, {2, 3}, {1, 1}})});
  ops.define<SliceAttrs>("slice_update")
      .summary("x with the elements a slice of these attributes would pick replaced by update.")
      .input("x", "any type")
      .input("update", "type of x, shape of the slice")
      .output("y", "shape and type of x")
      .infer(infer_slice_update)
      .inplace(0, 0)
      .gradient(slice_update_gradient)
      .example({.inputs = {{DType::kF32, {4, 6}}, {DType::kF32, {2, 6}}},
                .attrs = Attrs::of(SliceAttrs{{1, 0}, {3, 6}, {1, 1}})})
      .example({.inputs = {{DType::kF32, {5, 8}}, {DType::kF32, {3, 3}}},
                .attrs = Attrs::of(SliceAttrs{{0, 1}, {5, 8}, {2, 3}})})
      .example({.inputs = {{DType::kBool, {9, 35}}, {DType::kBool, {9, 33}}},
                .attrs = Attrs::of(SliceAttrs{{0, 1}, {9, 34}, {1, 1}})});
  ops.define<PadAttrs>("pad")
      .summary("Puts `interior` values between neighbours, then `low` before and `high` after; negative crops.")
      .input("x", "any type")
      .output("y", "type of x")
      .infer(infer_pad)
      .gradient(pad_gradient)
      .example({.inputs = {{DType::kF32, {2, 3}}}, .attrs = Attrs::of(PadAttrs{{1, 0}, {0, 2}, {0, 0}, 0.5})})
      .example({.inputs = {{DType::kF32, {3, 4}}}, .attrs = Attrs::of(PadAttrs{{-1, 1}, {1, -2}, {0, 1}, 0})})
      .example({.inputs = {{DType::kF32, {5}}}, .attrs = Attrs::of(PadAttrs{{-3}, {-2}, {2}, 0})})
      .example({.inputs = {{DType::kI32, {2, 2}}}, .attrs = Attrs::of(PadAttrs{{1, 1}, {1, 1}, {0, 0}, -7})})
      .example({.inputs = {{DType::kF32, {}}}, .attrs = Attrs::of(PadAttrs{{}, {}, {}, 2})})
      .example({.inputs = {{DType::kF32, {2, 3, 2, 3}}},
                .attrs = Attrs::of(PadAttrs{{0, 1, 0, 0}, {0, 2, 0, 0}, {0, 1, 0, 0}, 1})})
      .example({.inputs = {{DType::kU8, {2, 3, 17}}},
                .attrs = Attrs::of(PadAttrs{{1, 0, 2}, {0, 1, 3}, {1, 0, 0}, 9}),
                .int_high = 200});
  ops.define<ConcatAttrs>("concat")
      .summary("Joins the inputs along one axis.")
      .inputs("xs", "any one type, shapes equal but for the axis")
      .output("y", "type of the inputs")
      .infer(infer_concat)
      .gradient(concat_gradient)
      .example({.inputs = {{DType::kF32, {2, 3}}, {DType::kF32, {1, 3}}, {DType::kF32, {4, 3}}},
                .attrs = Attrs::of(ConcatAttrs{0})})
      .example({.inputs = {{DType::kF32, {2, 3, 2}}, {DType::kF32, {2, 1, 2}}}, .attrs = Attrs::of(ConcatAttrs{-2})})
      .example(
          {.inputs = {{DType::kU8, {3, 2}}, {DType::kU8, {3, 5}}}, .attrs = Attrs::of(ConcatAttrs{1}), .int_high = 200})
      .example({.inputs = {{DType::kI16, {5, 21}}, {DType::kI16, {5, 0}}, {DType::kI16, {5, 35}}},
                .attrs = Attrs::of(ConcatAttrs{1}),
                .int_high = 999});
}

}  // namespace

void define_shape(OpRegistry& ops) {
  define_layout(ops);
  define_parts(ops);
}

}  // namespace aspen
