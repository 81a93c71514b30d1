// Ops that pick and place elements by computed positions. take and scatter_rows move whole rows, gather and scatter
// single elements; each pair is the gradient of one another. Indices are i32, not negative, and always checked.
#include "aspen/ops/index/index.h"

#include <algorithm>

#include "aspen/ops/build.h"

namespace aspen {
namespace {

// -- shape rules ------------------------------------------------------------------------------------------------

// Indices that are followed one by one; more than the others, and not worth a pass over memory to narrow them.
void check_element_index_type(const InferContext& c) {
  c.check(c.in(1).dtype == DType::kI32 || c.in(1).dtype == DType::kI64, "takes i32 or i64 indices, not {}.",
          to_string(c.in(1)));
}

void check_index_type(const InferContext& c, std::size_t i) {
  c.check(c.in(i).dtype == DType::kI32, "takes i32 indices, not {}.", to_string(c.in(i)));
}

void check_mode(const InferContext& c) {
  const auto& mode = c.attrs<ScatterAttrs>().mode;
  bool known =
      std::any_of(std::begin(kScatterModes), std::end(kScatterModes), [&](auto* name) { return mode == name; });
  c.check(known, "unknown mode \"{}\"; expected set, add, mul, max or min.", mode);
}

TensorType taken(const InferContext& c, std::int64_t axis) {
  const TensorType& x = c.in(0);
  check_index_type(c, 1);
  axis = normalize_axis(axis, x.shape, c.who());
  Shape shape(x.shape.begin(), x.shape.begin() + axis);
  shape.insert(shape.end(), c.in(1).shape.begin(), c.in(1).shape.end());
  shape.insert(shape.end(), x.shape.begin() + axis + 1, x.shape.end());
  return {x.dtype, shape};
}

// index fits into x along every axis but the one it points along.
TensorType gathered(const InferContext& c, std::int64_t axis) {
  const TensorType &x = c.in(0), &index = c.in(1);
  check_element_index_type(c);
  axis = normalize_axis(axis, x.shape, c.who());
  bool fits = index.rank() == x.rank();
  for (std::int64_t i = 0; fits && i < x.rank(); ++i) fits = i == axis || index.shape[i] <= x.shape[i];
  c.check(fits, "index {} does not fit {}; expected equal ranks, and extents no larger but along axis {}.",
          to_string(index), to_string(x), axis);
  return {x.dtype, index.shape};
}

void check_update(const InferContext& c, const TensorType& expected) {
  check_mode(c);
  c.check(c.in(2) == expected, "the update is {}, but the places to write are {}.", to_string(c.in(2)),
          to_string(expected));
}

std::vector<TensorType> infer_take(const InferContext& c) { return {taken(c, c.attrs<TakeAttrs>().axis)}; }

std::vector<TensorType> infer_gather(const InferContext& c) { return {gathered(c, c.attrs<GatherAttrs>().axis)}; }

std::vector<TensorType> infer_scatter(const InferContext& c) {
  check_update(c, gathered(c, c.attrs<ScatterAttrs>().axis));
  return {c.in(0)};
}

std::vector<TensorType> infer_scatter_rows(const InferContext& c) {
  check_update(c, taken(c, c.attrs<ScatterAttrs>().axis));
  return {c.in(0)};
}

std::vector<TensorType> infer_sum_rows(const InferContext& c) {
  const TensorType &x = c.in(0), &from = c.in(1);
  check_index_type(c, 1);
  std::int64_t rows = c.attrs<SumRowsAttrs>().rows;
  c.check(is_floating(x.dtype) && x.rank() == 2 && from.rank() == 1 && c.in(2) == from && rows >= 0,
          "adds rows {} of {} to rows {} of {}; expected a floating point matrix and two vectors of one length.",
          to_string(from), to_string(x), to_string(c.in(2)), rows);
  return {{x.dtype, {rows, x.shape[1]}}};
}

std::vector<TensorType> infer_wrap_index(const InferContext& c) {
  check_index_type(c, 0);
  c.check(c.attrs<WrapIndexAttrs>().size >= 0, "size {} is negative.", c.attrs<WrapIndexAttrs>().size);
  return {c.in(0)};
}

std::vector<TensorType> infer_searchsorted(const InferContext& c) {
  const TensorType &sorted = c.in(0), &values = c.in(1);
  c.check(sorted.dtype == values.dtype && sorted.dtype != DType::kBool,
          "takes two tensors of one ordered type, not {} and {}.", to_string(sorted), to_string(values));
  bool fits = sorted.rank() >= 1 && (sorted.rank() == 1 || sorted.rank() == values.rank());
  for (std::int64_t i = 0; fits && i + 1 < sorted.rank(); ++i) fits = sorted.shape[i] == values.shape[i];
  c.check(fits, "{} does not fit {}; expected one sorted row, or one per leading position of the values.",
          to_string(sorted), to_string(values));
  return {{DType::kI32, values.shape}};
}

// -- gradients --------------------------------------------------------------------------------------------------

// scatter and scatter_rows differ only in how they read and write at the indices.
struct Places {
  GradientContext& c;
  std::string scatter;  // name of the op

  Value* read(Value* x) const {
    auto axis = c.attrs<ScatterAttrs>().axis;
    return scatter == "scatter" ? c.b.make("gather", {x, c.in(1)}, GatherAttrs{axis})
                                : c.b.make("take", {x, c.in(1)}, TakeAttrs{axis});
  }
  Value* write(Value* x, Value* update, const char* mode) const {
    return c.b.make(scatter, {x, c.in(1), update}, ScatterAttrs{c.attrs<ScatterAttrs>().axis, mode});
  }
};

// y = x * (product of the updates that meet there). An update of zero cannot be divided out: it gets the product of
// the others, which is not zero only where it is the only zero.
void multiply_gradient(const Places& at) {
  GradientContext& c = at.c;
  Value *x = c.in(0), *u = c.in(2), *g = c.grad();
  if (c.needs(0)) c.set(0, build::mul(c.b, g, at.write(build::full_like(c.b, x, 1), u, "mul")));
  if (!c.needs(2)) return;
  Value* is_zero = build::binary(c.b, "eq", u, 0.0);
  Value* ones = build::full_like(c.b, u, 1);
  Value* safe = build::select(c.b, is_zero, ones, u);
  Value* zeros_there = at.read(at.write(build::full_like(c.b, x, 0), build::cast(c.b, is_zero, u->dtype()), "add"));
  Value* others = at.read(build::mul(c.b, g, at.write(x, safe, "mul")));
  Value* only_zero =
      build::select(c.b, build::binary(c.b, "eq", zeros_there, 1.0), others, build::full_like(c.b, u, 0));
  Value* divided = build::div(c.b, at.read(build::mul(c.b, g, c.out())), safe);
  c.set(2, build::select(c.b, is_zero, only_zero, divided));
}

// All that equal the winner share its gradient evenly, x among them.
void extreme_gradient(const Places& at) {
  GradientContext& c = at.c;
  Value *x = c.in(0), *u = c.in(2), *y = c.out();
  Value* x_wins = build::cast(c.b, build::binary(c.b, "eq", x, y), x->dtype());
  Value* u_wins = build::cast(c.b, build::binary(c.b, "eq", u, at.read(y)), u->dtype());
  // Nobody equals a NaN: 0 / 1 instead of 0 / 0.
  Value* winners = build::binary(c.b, "max", at.write(x_wins, u_wins, "add"), 1.0);
  Value* share = build::div(c.b, c.grad(), winners);
  if (c.needs(0)) c.set(0, build::mul(c.b, share, x_wins));
  if (c.needs(2)) c.set(2, build::mul(c.b, at.read(share), u_wins));
}

void scatter_gradient(GradientContext& c) {
  Places at{c, c.op.name()};
  const auto& mode = c.attrs<ScatterAttrs>().mode;
  if (mode == "mul") return multiply_gradient(at);
  if (mode == "max" || mode == "min") return extreme_gradient(at);
  if (c.needs(0)) c.set(0, mode == "add" ? c.grad() : at.write(c.grad(), build::full_like(c.b, c.in(2), 0), "set"));
  if (c.needs(2)) c.set(2, at.read(c.grad()));
}

// -- definitions ------------------------------------------------------------------------------------------------

void define_reads(OpRegistry& ops) {
  ops.define<TakeAttrs>("take")
      .summary("Whole rows along an axis: y[.., index.., ..] = x[.., index, ..].")
      .input("x", "any type")
      .input("index", "i32, any shape")
      .output("y", "x with the axis replaced by the shape of index")
      .infer(infer_take)
      .gradient([](GradientContext& c) {
        ScatterAttrs attrs{c.attrs<TakeAttrs>().axis, "add"};
        c.set(0, c.b.make("scatter_rows", {build::full_like(c.b, c.in(0), 0), c.in(1), c.grad()}, attrs));
      })
      .example({.inputs = {{DType::kF32, {5, 3}}, {DType::kI32, {4}}}, .attrs = Attrs::of(TakeAttrs{0}), .int_high = 5})
      .example({.inputs = {{DType::kF32, {2, 4, 3}}, {DType::kI32, {2, 3}}},
                .attrs = Attrs::of(TakeAttrs{1}),
                .int_high = 4})
      .example({.inputs = {{DType::kF32, {3, 6}}, {DType::kI32, {}}}, .attrs = Attrs::of(TakeAttrs{-1}), .int_high = 6})
      .example(
          {.inputs = {{DType::kF32, {6, 35}}, {DType::kI32, {9}}}, .attrs = Attrs::of(TakeAttrs{0}), .int_high = 6})
      .example({.inputs = {{DType::kBool, {2, 6, 3}}, {DType::kI32, {19}}},
                .attrs = Attrs::of(TakeAttrs{1}),
                .int_high = 2});
  ops.define<GatherAttrs>("gather")
      .summary("Single elements along an axis, as torch.gather.")
      .input("x", "any type")
      .input("index", "i32 or i64, rank of x, no larger than x but along the axis")
      .output("y", "type of x, shape of index")
      .reads_wide(1)
      .infer(infer_gather)
      .gradient([](GradientContext& c) {
        ScatterAttrs attrs{c.attrs<GatherAttrs>().axis, "add"};
        c.set(0, c.b.make("scatter", {build::full_like(c.b, c.in(0), 0), c.in(1), c.grad()}, attrs));
      })
      .example(
          {.inputs = {{DType::kF32, {3, 5}}, {DType::kI32, {3, 7}}}, .attrs = Attrs::of(GatherAttrs{1}), .int_high = 5})
      .example({.inputs = {{DType::kF32, {4, 3, 2}}, {DType::kI32, {5, 2, 1}}},
                .attrs = Attrs::of(GatherAttrs{0}),
                .int_high = 4})
      .example(
          {.inputs = {{DType::kI16, {4, 5}}, {DType::kI32, {3, 5}}}, .attrs = Attrs::of(GatherAttrs{0}), .int_high = 4})
      .example({.inputs = {{DType::kF32, {3, 5}}, {DType::kI64, {3, 7}}},
                .attrs = Attrs::of(GatherAttrs{1}),
                .int_high = 5});
}

void define_writes(OpRegistry& ops) {
  OpDef& scatter = ops.define<ScatterAttrs>("scatter")
                       .summary("x with single elements along an axis set or combined, as torch.scatter.")
                       .input("x", "any type")
                       .input("index", "i32 or i64, rank of x, no larger than x but along the axis")
                       .input("update", "type of x, shape of index")
                       .output("y", "shape and type of x")
                       .reads_wide(1)
                       .infer(infer_scatter)
                       .inplace(0, 0)
                       .gradient(scatter_gradient);
  OpDef& rows = ops.define<ScatterAttrs>("scatter_rows")
                    .summary("x with whole rows along an axis set or combined: the inverse of take.")
                    .input("x", "any type")
                    .input("index", "i32, any shape")
                    .input("update", "type of x, the shape take(x, index) has")
                    .output("y", "shape and type of x")
                    .infer(infer_scatter_rows)
                    .inplace(0, 0)
                    .gradient(scatter_gradient);
  for (const char* mode : kScatterModes) {
    // Where set meets one place twice, every writer is handed the gradient, though only the last one shows.
    bool exact = std::string_view(mode) != "set";
    scatter
        .example({.inputs = {{DType::kF32, {3, 5}}, {DType::kI32, {2, 4}}, {DType::kF32, {2, 4}}},
                  .attrs = Attrs::of(ScatterAttrs{1, mode}),
                  .int_high = 5,
                  .check_gradient = exact})
        .example({.inputs = {{DType::kF32, {4, 3, 2}}, {DType::kI32, {5, 2, 2}}, {DType::kF32, {5, 2, 2}}},
                  .attrs = Attrs::of(ScatterAttrs{0, mode}),
                  .low = 0.5,
                  .high = 2,
                  .int_high = 4,
                  .check_gradient = exact});
    scatter.example({.inputs = {{DType::kF32, {2, 9}}, {DType::kI64, {2, 7}}, {DType::kF32, {2, 7}}},
                     .attrs = Attrs::of(ScatterAttrs{1, mode}),
                     .int_high = 9,
                     .check_gradient = exact});
    rows.example({.inputs = {{DType::kF32, {4, 3}}, {DType::kI32, {6}}, {DType::kF32, {6, 3}}},
                  .attrs = Attrs::of(ScatterAttrs{0, mode}),
                  .int_high = 4,
                  .check_gradient = exact})
        .example({.inputs = {{DType::kF32, {2, 5, 3}}, {DType::kI32, {2, 2}}, {DType::kF32, {2, 2, 2, 3}}},
                  .attrs = Attrs::of(ScatterAttrs{1, mode}),
                  .int_high = 5,
                  .check_gradient = exact})
        .example({.inputs = {{DType::kF32, {5, 37}}, {DType::kI32, {4}}, {DType::kF32, {4, 37}}},
                  .attrs = Attrs::of(ScatterAttrs{0, mode}),
                  .low = 0.5,
                  .high = 2,
                  .int_high = 5,
                  .check_gradient = exact})
        .example({.inputs = {{DType::kI32, {5, 3}}, {DType::kI32, {7}}, {DType::kI32, {7, 3}}},
                  .attrs = Attrs::of(ScatterAttrs{0, mode}),
                  .int_high = 5});
  }
}

void define_sum_rows(OpRegistry& ops) {
  OpDef& op = ops.define<SumRowsAttrs>("sum_rows")
                  .summary("Adds rows of x to rows of a matrix of zeros: bags of embeddings.")
                  .input("x", "floating point, a matrix")
                  .input("from", "i32: which row of x")
                  .input("to", "i32, as many: which row of y")
                  .output("y", "type of x, attribute rows")
                  .infer(infer_sum_rows)
                  .gradient([](GradientContext& c) {
                    SumRowsAttrs attrs{c.in(0)->shape()[0]};
                    c.set(0, c.b.make("sum_rows", {c.grad(), c.in(2), c.in(1)}, attrs));
                  });
  for (const Shape& x : {Shape{5, 3}, Shape{6, 21}, Shape{5, 70}}) {
    for (std::int64_t count : {0, 1, 9, 40}) {
      op.example({.inputs = {{DType::kF32, x}, {DType::kI32, {count}}, {DType::kI32, {count}}},
                  .attrs = Attrs::of(SumRowsAttrs{5}),
                  .int_high = 5});
    }
  }
}

void define_checks(OpRegistry& ops) {
  ops.define<WrapIndexAttrs>("wrap_index")
      .summary("Indices from the end counted from the start: i < 0 becomes i + size.")
      .input("index", "i32 in [-size, size); anything else is an error")
      .output("wrapped", "shape and type of index, in [0, size)")
      .infer(infer_wrap_index)
      .inplace(0, 0)
      .example({.inputs = {{DType::kI32, {7}}}, .attrs = Attrs::of(WrapIndexAttrs{5}), .int_low = -5, .int_high = 5});
  ops.define<CheckRangeAttrs>("check_range")
      .summary("x itself; an element outside [low, high] is an error that names it, its sample and what it must fit.")
      .input("x", "i32")
      .output("y", "shape and type of x")
      .infer([](const InferContext& c) {
        check_index_type(c, 0);
        return std::vector<TensorType>{c.in(0)};
      })
      .inplace(0, 0)
      .example({.inputs = {{DType::kI32, {7}}},
                .attrs = Attrs::of(CheckRangeAttrs{0, 4, "one_hot", "class", "5 classes"}),
                .int_low = 0,
                .int_high = 5});
}

void define_searches(OpRegistry& ops) {
  ops.define<SearchsortedAttrs>("searchsorted")
      .summary("Where values would go into a sorted row: before its equals, or after them with `right`.")
      .input("sorted", "ascending along the last axis; one row, or one per leading position of values")
      .input("values", "type of sorted")
      .output("position", "i32, shape of values")
      .infer(infer_searchsorted)
      .example({.inputs = {{DType::kF32, {1}}, {DType::kF32, {4}}}, .attrs = Attrs::of(SearchsortedAttrs{false})})
      .example({.inputs = {{DType::kF32, {3, 1}}, {DType::kF32, {3, 5}}}, .attrs = Attrs::of(SearchsortedAttrs{true})});
}

}  // namespace

void define_index(OpRegistry& ops) {
  define_reads(ops);
  define_writes(ops);
  define_sum_rows(ops);
  define_checks(ops);
  define_searches(ops);
}

}  // namespace aspen
