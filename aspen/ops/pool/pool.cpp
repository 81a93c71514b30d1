// Pooling over one to three spatial axes: maximum, average, and average over bins of near-equal size (adaptive).
// The averages are linear, so each is the gradient of its own gradient; max_pool remembers where its maxima were.
#include "aspen/ops/pool/pool.h"

#include "aspen/ops/build.h"

namespace aspen {
namespace {

void check_input(const InferContext& c, const TensorType& x) {
  c.check(is_floating(x.dtype) && x.rank() >= 3 && x.rank() <= 5,
          "takes a floating point input (N, C, spatial...) with one to three spatial axes, not {}.", to_string(x));
}

// ceil_mode rounds up, but never starts a window in the padding on the right.
std::int64_t pooled_extent(const PoolAttrs& attrs, std::size_t i, std::int64_t in, std::int64_t dilation) {
  std::int64_t span = in + 2 * attrs.padding[i] - dilation * (attrs.kernel[i] - 1) - 1;
  std::int64_t stride = attrs.stride[i];
  std::int64_t out = (span + (attrs.ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (attrs.ceil_mode && (out - 1) * stride >= in + attrs.padding[i]) --out;
  return out;
}

TensorType pooled(const InferContext& c, const PoolAttrs& attrs, const TensorType& x, bool dilated) {
  check_input(c, x);
  auto axes = x.shape.size() - 2;
  c.check(attrs.kernel.size() == axes && attrs.stride.size() == axes && attrs.padding.size() == axes &&
              (!dilated || attrs.dilation.size() == axes),
          "kernel {}, stride {}, padding {}{} need one entry per spatial axis of {}.", to_string(attrs.kernel),
          to_string(attrs.stride), to_string(attrs.padding),
          dilated ? " and dilation " + to_string(attrs.dilation) : std::string(), to_string(x));
  TensorType y{x.dtype, {x.shape[0], x.shape[1]}};
  for (std::size_t i = 0; i < axes; ++i) {
    std::int64_t kernel = attrs.kernel[i], dilation = dilated ? attrs.dilation[i] : 1;
    c.check(
        kernel >= 1 && attrs.stride[i] >= 1 && dilation >= 1 && attrs.padding[i] >= 0 && 2 * attrs.padding[i] <= kernel,
        "kernel {}, stride {}, padding {}, dilation {} on spatial axis {}; expected kernel, stride, dilation >= 1 and "
        "0 <= padding <= kernel / 2.",
        kernel, attrs.stride[i], attrs.padding[i], dilation, i);
    std::int64_t reach = dilation * (kernel - 1) + 1, room = x.shape[i + 2] + 2 * attrs.padding[i];
    // With ceil_mode the first window may reach beyond the padding.
    c.check(room + (attrs.ceil_mode ? attrs.stride[i] - 1 : 0) >= reach,
            "the window reaches over {} elements, but spatial axis {} of {} has {} with padding.", reach, i,
            to_string(x), room);
    y.shape.push_back(pooled_extent(attrs, i, x.shape[i + 2], dilation));
  }
  return y;
}

TensorType binned(const InferContext& c, const TensorType& x) {
  check_input(c, x);
  const auto& output = c.attrs<AdaptiveAvgPoolAttrs>().output;
  c.check(std::ssize(output) == x.rank() - 2, "output {} needs one entry per spatial axis of {}.", to_string(output),
          to_string(x));
  TensorType y{x.dtype, {x.shape[0], x.shape[1]}};
  for (auto extent : output) {
    c.check(extent >= 1, "output {} has an extent below 1.", to_string(output));
    y.shape.push_back(extent);
  }
  return y;
}

void check_gradient_of(const InferContext& c, const TensorType& y) {
  c.check(c.in(0) == y, "the gradient is {}, but the pooling it belongs to yields {}.", to_string(c.in(0)),
          to_string(y));
}

std::vector<TensorType> infer_max_pool(const InferContext& c) {
  TensorType y = pooled(c, c.attrs<PoolAttrs>(), c.in(0), true);
  return {y, {DType::kI32, y.shape}};
}

std::vector<TensorType> infer_max_pool_grad(const InferContext& c) {
  TensorType x{c.in(0).dtype, c.attrs<MaxPoolGradAttrs>().shape};
  check_input(c, x);
  c.check(c.in(1).dtype == DType::kI32 && c.in(1).shape == c.in(0).shape && c.in(0).rank() == x.rank() &&
              c.in(0).shape[0] == x.shape[0] && c.in(0).shape[1] == x.shape[1],
          "gradient {} and index {} do not belong to an input {}.", to_string(c.in(0)), to_string(c.in(1)),
          to_string(x));
  return {x};
}

std::vector<TensorType> infer_avg_pool(const InferContext& c) {
  return {pooled(c, c.attrs<PoolAttrs>(), c.in(0), false)};
}

std::vector<TensorType> infer_avg_pool_grad(const InferContext& c) {
  const auto& attrs = c.attrs<AvgPoolGradAttrs>();
  TensorType x{c.in(0).dtype, attrs.shape};
  check_gradient_of(c, pooled(c, attrs.pool, x, false));
  return {x};
}

std::vector<TensorType> infer_adaptive(const InferContext& c) { return {binned(c, c.in(0))}; }

std::vector<TensorType> infer_adaptive_grad(const InferContext& c) {
  TensorType x{c.in(0).dtype, c.attrs<AdaptiveAvgPoolAttrs>().shape};
  check_gradient_of(c, binned(c, x));
  return {x};
}

void define_max_pool(OpRegistry& ops) {
  OpDef& forward =
      ops.define<PoolAttrs>("max_pool")
          .summary("Maximum over windows; NaN wins, the first maximum on ties, padding counts as -inf.")
          .input("x", "(N, C, spatial...), floating point")
          .output("y", "(N, C, pooled...)")
          .output("index", "i32, place of the maximum, counted flat within its plane; -1: the window is all padding")
          .infer(infer_max_pool)
          .gradient([](GradientContext& c) {
            if (c.grad(0) == nullptr) return;
            c.set(0, c.b.make("max_pool_grad", {c.grad(0), c.out(1)}, MaxPoolGradAttrs{c.in(0)->shape()}));
          });
  auto f32 = [](Shape shape) { return std::vector<TensorType>{{DType::kF32, std::move(shape)}}; };
  forward.example({.inputs = f32({2, 3, 8}), .attrs = Attrs::of(PoolAttrs{{2}, {2}, {0}, {1}})})
      .example({.inputs = f32({1, 2, 7, 9}), .attrs = Attrs::of(PoolAttrs{{3, 3}, {2, 2}, {1, 1}, {1, 1}})})
      .example({.inputs = f32({1, 2, 8, 7}), .attrs = Attrs::of(PoolAttrs{{3, 2}, {2, 3}, {0, 1}, {1, 2}, true})})
      .example(
          {.inputs = f32({1, 2, 4, 5, 4}), .attrs = Attrs::of(PoolAttrs{{2, 2, 2}, {2, 1, 2}, {0, 1, 0}, {1, 1, 1}})});
  ops.define<MaxPoolGradAttrs>("max_pool_grad")
      .summary("Gradient of max_pool by its input: g added at the places of the maxima.")
      .input("g", "gradient of y")
      .input("index", "output of max_pool")
      .output("dx", "attribute shape")
      .infer(infer_max_pool_grad)
      .example({.inputs = {{DType::kF32, {2, 3, 2, 2}}, {DType::kI32, {2, 3, 2, 2}}},
                .attrs = Attrs::of(MaxPoolGradAttrs{{2, 3, 4, 5}}),
                .int_high = 20});
}

void define_avg_pool(OpRegistry& ops) {
  OpDef& forward =
      ops.define<PoolAttrs>("avg_pool")
          .summary("Average over windows.")
          .input("x", "(N, C, spatial...), floating point")
          .output("y", "(N, C, pooled...)")
          .infer(infer_avg_pool)
          .gradient([](GradientContext& c) {
            c.set(0, c.b.make("avg_pool_grad", {c.grad()}, AvgPoolGradAttrs{c.attrs<PoolAttrs>(), c.in(0)->shape()}));
          });
  OpDef& gradient = ops.define<AvgPoolGradAttrs>("avg_pool_grad")
                        .summary("Gradient of avg_pool by its input: every g spread over its window.")
                        .input("g", "gradient of y")
                        .output("dx", "attribute shape")
                        .infer(infer_avg_pool_grad)
                        .gradient([](GradientContext& c) {
                          c.set(0, c.b.make("avg_pool", {c.grad()}, c.attrs<AvgPoolGradAttrs>().pool));
                        });
  struct Case {
    Shape x, y;
    PoolAttrs attrs;
  };
  for (const Case& e :
       std::vector<Case>{{{2, 3, 8}, {2, 3, 4}, {{2}, {2}, {0}}},
                         {{1, 2, 7, 9}, {1, 2, 4, 5}, {{3, 3}, {2, 2}, {1, 1}}},
                         {{1, 2, 7, 8}, {1, 2, 4, 3}, {{3, 2}, {2, 3}, {1, 1}, {}, true, false}},
                         {{1, 2, 4, 5, 4}, {1, 2, 2, 4, 2}, {{2, 2, 2}, {2, 1, 2}, {0, 0, 0}, {}, false, true, 3}}}) {
    forward.example({.inputs = {{DType::kF32, e.x}}, .attrs = Attrs::of(e.attrs)});
    gradient.example({.inputs = {{DType::kF32, e.y}}, .attrs = Attrs::of(AvgPoolGradAttrs{e.attrs, e.x})});
  }
}

void define_adaptive_avg_pool(OpRegistry& ops) {
  OpDef& forward = ops.define<AdaptiveAvgPoolAttrs>("adaptive_avg_pool")
                       .summary("Average over bins: bin i = [floor(i * in / out), ceil((i + 1) * in / out)).")
                       .input("x", "(N, C, spatial...), floating point")
                       .output("y", "(N, C, output...)")
                       .infer(infer_adaptive)
                       .gradient([](GradientContext& c) {
                         AdaptiveAvgPoolAttrs attrs{c.attrs<AdaptiveAvgPoolAttrs>().output, c.in(0)->shape()};
                         c.set(0, c.b.make("adaptive_avg_pool_grad", {c.grad()}, attrs));
                       });
  OpDef& gradient = ops.define<AdaptiveAvgPoolAttrs>("adaptive_avg_pool_grad")
                        .summary("Gradient of adaptive_avg_pool by its input.")
                        .input("g", "gradient of y")
                        .output("dx", "attribute shape")
                        .infer(infer_adaptive_grad)
                        .gradient([](GradientContext& c) {
                          AdaptiveAvgPoolAttrs attrs{c.attrs<AdaptiveAvgPoolAttrs>().output, {}};
                          c.set(0, c.b.make("adaptive_avg_pool", {c.grad()}, attrs));
                        });
  struct Case {
    Shape x;
    std::vector<std::int64_t> output;
  };
  for (const Case& e : std::vector<Case>{
           {{2, 3, 7}, {3}}, {{1, 2, 5, 7}, {3, 2}}, {{2, 3, 6, 6}, {1, 1}}, {{1, 2, 3, 5, 4}, {2, 7, 4}}}) {
    Shape y{e.x[0], e.x[1]};
    y.insert(y.end(), e.output.begin(), e.output.end());
    forward.example({.inputs = {{DType::kF32, e.x}}, .attrs = Attrs::of(AdaptiveAvgPoolAttrs{e.output, {}})});
    gradient.example({.inputs = {{DType::kF32, y}}, .attrs = Attrs::of(AdaptiveAvgPoolAttrs{e.output, e.x})});
  }
}

}  // namespace

void define_pool(OpRegistry& ops) {
  define_max_pool(ops);
  define_avg_pool(ops);
  define_adaptive_avg_pool(ops);
}

}  // namespace aspen
