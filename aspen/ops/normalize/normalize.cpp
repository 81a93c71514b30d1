// normalize: x^ = (x - mean) * rstd with rstd = 1 / sqrt(var + epsilon), statistics over `axes`. Layer, group,
// instance and batch normalisation are this op with different axes; their affine part is mul and add.
//   dx = rstd * (g - mean(g) - x^ * mean(g * x^))
#include "aspen/ops/normalize/normalize.h"

#include "aspen/ops/build.h"

namespace aspen {
namespace {

// Type of mean and rstd: x with the axes reduced to 1, at least float32.
TensorType statistics_of(const InferContext& c, const TensorType& x) {
  const auto& axes = c.attrs<NormalizeAttrs>().axes;
  c.check(is_floating(x.dtype), "takes floating point inputs, not {}.", to_string(x));
  TensorType statistics{is_narrow_float(x.dtype) ? DType::kF32 : x.dtype, x.shape};
  std::int64_t previous = -1;
  for (auto axis : axes) {
    c.check(axis > previous && axis < x.rank(), "axes {} are not sorted axes of {}.", to_string(axes), to_string(x));
    statistics.shape[axis] = 1;
    previous = axis;
  }
  return statistics;
}

std::vector<TensorType> infer_normalize(const InferContext& c) {
  TensorType statistics = statistics_of(c, c.in(0));
  return {c.in(0), statistics, statistics};
}

std::vector<TensorType> infer_normalize_grad(const InferContext& c) {
  TensorType statistics = statistics_of(c, c.in(0));
  c.check(c.in(1) == statistics, "rstd is {}, expected {}.", to_string(c.in(1)), to_string(statistics));
  c.check(c.in(2) == c.in(0), "y and its gradient differ: {} and {}.", to_string(c.in(0)), to_string(c.in(2)));
  return {c.in(0)};
}

// Gradients that arrive at the statistics, with n elements behind each:
//   dx += g_mean / n,   dx -= g_rstd * rstd^2 * x^ / n
void normalize_gradient(GradientContext& c) {
  Value *y = c.out(0), *rstd = c.out(2), *dx = nullptr;
  auto accumulate = [&](Value* part) { dx = dx == nullptr ? part : build::add(c.b, dx, part); };
  if (c.grad(0) != nullptr) accumulate(c.b.make("normalize_grad", {y, rstd, c.grad(0)}, c.attrs<NormalizeAttrs>()));
  double n = static_cast<double>(y->type().numel()) / static_cast<double>(rstd->type().numel());
  if (c.grad(1) != nullptr) {
    Value* share = build::mul(c.b, c.grad(1), 1 / n);
    accumulate(build::broadcast(c.b, build::cast(c.b, share, y->dtype()), y->shape()));
  }
  if (c.grad(2) != nullptr) {
    Value* share = build::mul(c.b, build::mul(c.b, c.grad(2), build::mul(c.b, rstd, rstd)), -1 / n);
    accumulate(build::mul(c.b, build::cast(c.b, share, y->dtype()), y));
  }
  c.set(0, dx);
}

}  // namespace

void define_normalize(OpRegistry& ops) {
  OpDef& forward = ops.define<NormalizeAttrs>("normalize")
                       .summary("Subtracts the mean over the axes and divides by the standard deviation.")
                       .input("x", "floating point")
                       .output("y", "shape and type of x")
                       .output("mean", "x with the axes of extent 1; f32 for f16")
                       .output("rstd", "1 / sqrt(var + epsilon), the variance without correction; as mean")
                       .infer(infer_normalize)
                       .inplace(0, 0)
                       .gradient(normalize_gradient);
  OpDef& gradient = ops.define<NormalizeAttrs>("normalize_grad")
                        .summary("Gradient of normalize by its input, for a gradient of y.")
                        .input("y", "output of normalize")
                        .input("rstd", "output of normalize")
                        .input("g", "gradient of y")
                        .output("dx", "shape and type of y")
                        .infer(infer_normalize_grad)
                        .inplace(0, 2);
  struct Case {
    DType dtype;
    Shape shape;
    std::vector<std::int64_t> axes;
  };
  // Layer, batch, group norm, everything; a gap between the axes; so many rows and columns of so few that in some of
  // them the elements almost agree.
  for (const Case& e : std::vector<Case>{{DType::kF32, {4, 8}, {1}},
                                         {DType::kF32, {3, 4, 2, 3}, {0, 2, 3}},
                                         {DType::kF32, {2, 3, 4, 5}, {2, 3}},
                                         {DType::kF32, {5, 3}, {0, 1}},
                                         {DType::kF32, {3, 4, 5}, {0, 2}},
                                         {DType::kF32, {700, 3}, {1}},
                                         {DType::kF32, {3, 700}, {0}},
                                         {DType::kF16, {3, 16}, {1}},
                                         {DType::kBF16, {3, 16}, {1}}}) {
    DType wide = is_narrow_float(e.dtype) ? DType::kF32 : e.dtype;
    Shape reduced = e.shape;
    for (auto axis : e.axes) reduced[axis] = 1;
    Attrs attrs = Attrs::of(NormalizeAttrs{e.axes, 1e-5});
    forward.example({.inputs = {{e.dtype, e.shape}}, .attrs = attrs});
    gradient.example({.inputs = {{e.dtype, e.shape}, {wide, reduced}, {e.dtype, e.shape}}, .attrs = attrs});
  }
}

}  // namespace aspen
