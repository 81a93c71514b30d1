// batch_norm: y = (x - mean) * rstd * scale + shift by channel, the statistics over batch and pixels.
// batch_norm_bounded does more: it adds another tensor and keeps the sum between bounds. With z the result of
// batch_norm, and g 0 where z is not between the bounds:
//   x^ = (x - mean) * rstd,  dshift = sum(g),  dscale = sum(g * x^),
//   dx = scale * rstd * (g - dshift / n - x^ * dscale / n)
// The gradient makes z again from x, so that neither z nor x^ is kept. Fused ops round as the ops they stand for.
#include "aspen/ops/batch_norm/batch_norm.h"

#include "aspen/ops/build.h"

namespace aspen {
namespace {

// One number for each channel of x.
TensorType channels_of(const InferContext& c, const TensorType& x, DType dtype) {
  c.check(is_floating(x.dtype) && x.rank() >= 2, "takes floating point inputs of rank 2 or more, not {}.",
          to_string(x));
  TensorType channels{dtype, Shape(x.shape.size(), 1)};
  channels.shape[1] = x.shape[1];
  return channels;
}

// Of mean and rstd: at least float32.
TensorType statistics_of(const InferContext& c, const TensorType& x) {
  return channels_of(c, x, is_narrow_float(x.dtype) ? DType::kF32 : x.dtype);
}

void check_affine(const InferContext& c) {
  const TensorType expected = channels_of(c, c.in(0), c.in(0).dtype);
  for (std::size_t i : {1, 2}) {
    if (!c.has(i)) continue;
    c.check(c.in(i) == expected, "takes {} by channel, not {}.", to_string(expected), to_string(c.in(i)));
  }
}

std::vector<TensorType> infer_batch_norm(const InferContext& c) {
  check_affine(c);
  if (c.has(3)) c.check(c.in(3) == c.in(0), "cannot add {} to {}.", to_string(c.in(3)), to_string(c.in(0)));
  const TensorType statistics = statistics_of(c, c.in(0));
  return {c.in(0), statistics, statistics};
}

std::vector<TensorType> infer_batch_norm_grad(const InferContext& c) {
  check_affine(c);
  const TensorType statistics = statistics_of(c, c.in(0)), affine = channels_of(c, c.in(0), c.in(0).dtype);
  for (std::size_t i : {3, 4}) {
    c.check(c.in(i) == statistics, "takes statistics {}, not {}.", to_string(statistics), to_string(c.in(i)));
  }
  c.check(c.in(5) == c.in(0), "x and the gradient of y differ: {} and {}.", to_string(c.in(0)), to_string(c.in(5)));
  return {c.in(0), affine, affine};
}

// Gradients that arrive at the statistics, with n elements behind each:
//   dx += g_mean / n,   dx -= g_rstd * rstd^3 * (x - mean) / n
void batch_norm_gradient(GradientContext& c) {
  Value *x = c.in(0), *mean = c.out(1), *rstd = c.out(2), *dx = nullptr;
  auto accumulate = [&](Value* part) { dx = dx == nullptr ? part : build::add(c.b, dx, part); };
  if (c.grad(0) != nullptr) {
    Op* op = c.b.emit("batch_norm_grad", {x, c.in(1), c.in(2), mean, rstd, c.grad(0)},
                      BoundedBatchNormAttrs{.norm = c.attrs<BatchNormAttrs>()});
    accumulate(op->output(0));
    for (std::size_t i : {1, 2}) {
      if (c.in(i) != nullptr) c.set(i, op->output(i));
    }
  } else {
    for (std::size_t i : {1, 2}) {
      if (c.in(i) != nullptr) c.zero(i);
    }
  }
  const double n = static_cast<double>(x->type().numel()) / static_cast<double>(rstd->type().numel());
  if (c.grad(1) != nullptr) {
    Value* share = build::mul(c.b, c.grad(1), 1 / n);
    accumulate(build::broadcast(c.b, build::cast(c.b, share, x->dtype()), x->shape()));
  }
  if (c.grad(2) != nullptr) {
    Value* cube = build::mul(c.b, build::mul(c.b, rstd, rstd), rstd);
    Value* share = build::mul(c.b, build::mul(c.b, c.grad(2), cube), -1 / n);
    Value* away = build::sub(c.b, build::cast(c.b, x, mean->dtype()), mean);
    accumulate(build::cast(c.b, build::mul(c.b, share, away), x->dtype()));
  }
  c.set(0, dx);
}

void add_examples(OpDef& plain, OpDef& bounded, OpDef& gradient) {
  struct Case {
    DType dtype;
    Shape shape;
    BoundedBatchNormAttrs attrs = {};
  };
  // Planes, rows, columns, a single image; bounds of all kinds.
  for (const Case& e : std::vector<Case>{{DType::kF32, {3, 4, 2, 3}},
                                         {DType::kF32, {2, 3, 37}},
                                         {DType::kF32, {21, 5}},
                                         {DType::kF32, {1, 2, 5, 7}, {.norm = {0.5}, .low = 0, .open = true}},
                                         {DType::kF32, {5, 3, 17}, {.low = -0.5, .high = 0.75}},
                                         {DType::kF32, {23, 18}, {.low = -0.5, .high = 0.75, .open = true}},
                                         {DType::kF16, {3, 4, 5}},
                                         {DType::kBF16, {3, 4, 5}}}) {
    const TensorType x{e.dtype, e.shape};
    TensorType affine{e.dtype, Shape(e.shape.size(), 1)};
    affine.shape[1] = e.shape[1];
    const TensorType statistics{is_narrow_float(e.dtype) ? DType::kF32 : e.dtype, affine.shape};
    plain.example({.inputs = {x, affine, affine}, .attrs = Attrs::of(e.attrs.norm)});
    bounded.example({.inputs = {x, affine, affine, x}, .attrs = Attrs::of(e.attrs)});
    gradient.example({.inputs = {x, affine, affine, statistics, statistics, x}, .attrs = Attrs::of(e.attrs)});
  }
}

}  // namespace

void define_batch_norm(OpRegistry& ops) {
  auto with_operands = [](OpDef& def) -> OpDef& {
    return def.input("x", "floating point, (N, C, ...)")
        .optional_input("scale", "type of x, (1, C, 1, ...)")
        .optional_input("shift", "as scale");
  };
  auto with_results = [](OpDef& def) -> OpDef& {
    return def.output("y", "shape and type of x")
        .output("mean", "(1, C, 1, ...); f32 for f16")
        .output("rstd", "1 / sqrt(var + epsilon), the variance without correction; as mean")
        .infer(infer_batch_norm)
        .inplace(0, 0);
  };
  OpDef& plain = with_results(
      with_operands(ops.define<BatchNormAttrs>("batch_norm")
                        .summary("Normalises every channel over batch and pixels; times scale, plus shift.")));
  plain.gradient(batch_norm_gradient);
  OpDef& bounded = with_results(
      with_operands(ops.define<BoundedBatchNormAttrs>("batch_norm_bounded")
                        .summary("batch_norm, plus another tensor, between bounds: made by fuse_batch_norms."))
          .optional_input("other", "shape and type of x"));
  bounded.inplace(0, 3);
  OpDef& gradient = with_operands(ops.define<BoundedBatchNormAttrs>("batch_norm_grad")
                                      .summary("Gradient of batch_norm between bounds by x, scale and shift."))
                        .input("mean", "output of batch_norm")
                        .input("rstd", "output of batch_norm")
                        .input("g", "gradient of y, between the bounds")
                        .output("dx", "shape and type of x")
                        .output("dscale", "type of x, (1, C, 1, ...)")
                        .output("dshift", "as dscale")
                        .infer(infer_batch_norm_grad)
                        .inplace(0, 5);
  add_examples(plain, bounded, gradient);
}

}  // namespace aspen
