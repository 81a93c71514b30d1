// Convolutions and poolings of images that lie batch last, (C, H, W, N), as put_batch_last makes them of those that lie
// batch first: however few the channels and however narrow the rows, the images fill the vectors. With p a pixel,
//   y[o, p, n]              = bias[o] + sum over c, t of w[o, c, t] * x[c, p + t * dilation - padding, n]
//   conv_last_pool:           the largest y of each window, and which pixel of the window it was
//   conv_last_input_grad:     dx = the same sum read by x, given g and w
//   conv_last_weight_grad:    dw = the same sum read by w, given x and g; db[o] = sum over p, n of g
//   conv_last_pool_weight_grad:  the same, given the gradient of conv_last_pool's result
// They come after the gradients have been taken and have none of their own.
#include "aspen/ops/batch_last/batch_last.h"

#include "aspen/ops/build.h"

namespace aspen {
namespace {

constexpr std::int64_t kMostPlaces = 256;  // that a byte tells apart

void check_images(const InferContext& c, const TensorType& x) {
  c.check(is_floating(x.dtype) && x.rank() == 4, "takes floating point images (C, H, W, N), not {}.", to_string(x));
}

// The type of the convolution's result after checking that x and w fit each other.
TensorType result_of(const InferContext& c, const ConvLastAttrs& attrs, const TensorType& x, const TensorType& w) {
  check_images(c, x);
  c.check(w.dtype == x.dtype && w.rank() == 4 && w.shape[1] == x.shape[0],
          "a weight {} does not fit images {}; expected (O, C, KH, KW) of their type.", to_string(w), to_string(x));
  c.check(attrs.padding.size() == 2 && attrs.dilation.size() == 2, "padding {} and dilation {} need two entries each.",
          to_string(attrs.padding), to_string(attrs.dilation));
  TensorType y{x.dtype, {w.shape[0]}};
  for (std::size_t i = 0; i < 2; ++i) {
    c.check(attrs.padding[i] >= 0 && attrs.dilation[i] >= 1,
            "padding {}, dilation {} on axis {}; expected padding >= 0 and dilation >= 1.", attrs.padding[i],
            attrs.dilation[i], i + 1);
    std::int64_t reach = attrs.dilation[i] * (w.shape[i + 2] - 1) + 1, room = x.shape[i + 1] + 2 * attrs.padding[i];
    c.check(room >= reach, "the kernel reaches over {} elements, but axis {} of {} has {} with padding.", reach, i + 1,
            to_string(x), room);
    y.shape.push_back(room - reach + 1);
  }
  y.shape.push_back(x.shape[3]);
  return y;
}

void check_bias(const InferContext& c, const TensorType& y) {
  TensorType bias{y.dtype, {y.shape[0]}};
  c.check(!c.has(2) || c.in(2) == bias, "the bias is {}, expected {}.", c.has(2) ? to_string(c.in(2)) : "",
          to_string(bias));
}

// The type of what the windows of x leave.
TensorType pooled(const InferContext& c, const std::vector<std::int64_t>& window, const TensorType& x) {
  check_images(c, x);
  c.check(window.size() == 2 && window[0] >= 1 && window[1] >= 1 && window[0] * window[1] <= kMostPlaces,
          "window {}; expected two extents of 1 or more and at most {} places.", to_string(window), kMostPlaces);
  c.check(window[0] <= x.shape[1] && window[1] <= x.shape[2], "a window {} does not fit into {}.", to_string(window),
          to_string(x));
  return {x.dtype, {x.shape[0], x.shape[1] / window[0], x.shape[2] / window[1], x.shape[3]}};
}

void check_gradient_of(const InferContext& c, const TensorType& g, const TensorType& y) {
  c.check(g == y, "the gradient is {}, but the result it belongs to is {}.", to_string(g), to_string(y));
}

void check_place(const InferContext& c, const TensorType& place, const TensorType& y) {
  TensorType expected{DType::kU8, y.shape};
  c.check(place == expected, "the places are {}, expected {}.", to_string(place), to_string(expected));
}

std::vector<TensorType> infer_conv(const InferContext& c) {
  TensorType y = result_of(c, c.attrs<ConvLastAttrs>(), c.in(0), c.in(1));
  check_bias(c, y);
  return {y};
}

std::vector<TensorType> infer_conv_pool(const InferContext& c) {
  const auto& attrs = c.attrs<ConvLastPoolAttrs>();
  TensorType sums = result_of(c, attrs.conv, c.in(0), c.in(1));
  check_bias(c, sums);
  TensorType y = pooled(c, attrs.window, sums);
  return {y, {DType::kU8, y.shape}};
}

std::vector<TensorType> infer_input_grad(const InferContext& c) {
  const auto& attrs = c.attrs<ConvLastGradAttrs>();
  TensorType x{c.in(0).dtype, attrs.shape};
  check_gradient_of(c, c.in(0), result_of(c, attrs.conv, x, c.in(1)));
  return {x};
}

std::vector<TensorType> weight_grads(const TensorType& w) { return {w, {w.dtype, {w.shape[0]}}}; }

std::vector<TensorType> infer_weight_grad(const InferContext& c) {
  const auto& attrs = c.attrs<ConvLastGradAttrs>();
  TensorType w{c.in(0).dtype, attrs.shape};
  check_gradient_of(c, c.in(1), result_of(c, attrs.conv, c.in(0), w));
  return weight_grads(w);
}

std::vector<TensorType> infer_pool_weight_grad(const InferContext& c) {
  const auto& attrs = c.attrs<ConvLastPoolGradAttrs>();
  TensorType w{c.in(0).dtype, attrs.shape};
  check_gradient_of(c, c.in(1), pooled(c, attrs.pool.window, result_of(c, attrs.pool.conv, c.in(0), w)));
  check_place(c, c.in(2), c.in(1));
  return weight_grads(w);
}

std::vector<TensorType> infer_max_pool(const InferContext& c) {
  TensorType y = pooled(c, c.attrs<MaxPoolLastAttrs>().window, c.in(0));
  return {y, {DType::kU8, y.shape}};
}

std::vector<TensorType> infer_max_pool_grad(const InferContext& c) {
  const auto& attrs = c.attrs<MaxPoolLastGradAttrs>();
  TensorType x{c.in(0).dtype, attrs.shape};
  check_gradient_of(c, c.in(0), pooled(c, attrs.window, x));
  check_place(c, c.in(1), c.in(0));
  return {x};
}

// A kernel of w.numel / O per element of the convolution's result; the gradients do the same work.
double products(const TensorType& w, std::int64_t results) {
  return static_cast<double>(results) * static_cast<double>(w.numel()) /
         static_cast<double>(std::max<std::int64_t>(1, w.shape[0]));
}

double products_before_pool(const TensorType& w, const TensorType& y, const std::vector<std::int64_t>& window) {
  return products(w, y.numel() * window[0] * window[1]);
}

struct Case {
  Shape x, w, y;
  ConvLastAttrs attrs;
  std::vector<std::int64_t> window;
};

// Batches that fill vectors, that do not, and of one; padding, dilation; windows that leave a rest.
std::vector<Case> example_cases() {
  return {
      {{1, 9, 8, 16}, {5, 1, 3, 3}, {5, 7, 6, 16}, {{0, 0}, {1, 1}}, {2, 2}},
      {{5, 7, 9, 21}, {13, 5, 3, 2}, {13, 7, 10, 21}, {{1, 1}, {1, 1}}, {2, 3}},
      {{7, 8, 9, 40}, {4, 7, 3, 3}, {4, 6, 9, 40}, {{1, 2}, {2, 2}}, {1, 2}},
      {{3, 4, 5, 1}, {2, 3, 1, 1}, {2, 4, 5, 1}, {{0, 0}, {1, 1}}, {3, 2}},
  };
}

Shape pooled_shape(const Case& e) { return {e.y[0], e.y[1] / e.window[0], e.y[2] / e.window[1], e.y[3]}; }

void define_conv_last(OpRegistry& ops) {
  OpDef& conv = ops.define<ConvLastAttrs>("conv_last")
                    .summary("Convolution of images that lie batch last, perhaps with a relu behind it.")
                    .input("x", "(C, H, W, N), floating point")
                    .input("w", "(O, C, KH, KW)")
                    .optional_input("bias", "(O)")
                    .output("y", "(O, OH, OW, N)")
                    .infer(infer_conv)
                    .products([](const Op& op) { return products(op.input(1)->type(), op.output()->type().numel()); });
  OpDef& input_grad =
      ops.define<ConvLastGradAttrs>("conv_last_input_grad")
          .summary("Gradient of conv_last by its input.")
          .input("g", "gradient of the convolution's result")
          .input("w", "weight of the convolution")
          .output("dx", "attribute shape")
          .infer(infer_input_grad)
          .products([](const Op& op) { return products(op.input(1)->type(), op.input(0)->type().numel()); });
  OpDef& weight_grad =
      ops.define<ConvLastGradAttrs>("conv_last_weight_grad")
          .summary("Gradient of conv_last by its weight and its bias.")
          .input("x", "input of the convolution")
          .input("g", "gradient of the convolution's result")
          .output("dw", "attribute shape")
          .output("db", "(O)")
          .infer(infer_weight_grad)
          .products([](const Op& op) { return products(op.output()->type(), op.input(1)->type().numel()); });
  for (const Case& e : example_cases()) {
    auto f32 = [](const Shape& shape) { return TensorType{DType::kF32, shape}; };
    for (bool relu : {false, true}) {
      conv.example({.inputs = {f32(e.x), f32(e.w), f32({e.w[0]})},
                    .attrs = Attrs::of(ConvLastAttrs{e.attrs.padding, e.attrs.dilation, relu})});
    }
    input_grad.example({.inputs = {f32(e.y), f32(e.w)}, .attrs = Attrs::of(ConvLastGradAttrs{e.attrs, e.x})});
    weight_grad.example({.inputs = {f32(e.x), f32(e.y)}, .attrs = Attrs::of(ConvLastGradAttrs{e.attrs, e.w})});
  }
}

void define_conv_last_pool(OpRegistry& ops) {
  OpDef& forward =
      ops.define<ConvLastPoolAttrs>("conv_last_pool")
          .summary(
              "Convolution of images that lie batch last and the maximum over windows of its result, "
              "perhaps with a relu behind it; NaN wins, the first maximum on ties.")
          .input("x", "(C, H, W, N), floating point")
          .input("w", "(O, C, KH, KW)")
          .optional_input("bias", "(O)")
          .output("y", "(O, OH / window, OW / window, N)")
          .output("place", "u8, place of the maximum, counted flat within its window")
          .infer(infer_conv_pool)
          .products([](const Op& op) {
            return products_before_pool(op.input(1)->type(), op.output()->type(), op.attrs<ConvLastPoolAttrs>().window);
          });
  OpDef& gradient = ops.define<ConvLastPoolGradAttrs>("conv_last_pool_weight_grad")
                        .summary("Gradient of conv_last_pool by its weight and its bias.")
                        .input("x", "input of the convolution")
                        .input("g", "gradient of y")
                        .input("place", "output of conv_last_pool")
                        .output("dw", "attribute shape")
                        .output("db", "(O)")
                        .infer(infer_pool_weight_grad)
                        .products([](const Op& op) {
                          return products_before_pool(op.output()->type(), op.input(1)->type(),
                                                      op.attrs<ConvLastPoolGradAttrs>().pool.window);
                        });
  for (const Case& e : example_cases()) {
    auto f32 = [](const Shape& shape) { return TensorType{DType::kF32, shape}; };
    const ConvLastPoolAttrs attrs{e.attrs, e.window};
    const std::int64_t places = e.window[0] * e.window[1];
    for (bool relu : {false, true}) {
      ConvLastPoolAttrs with_relu = attrs;
      with_relu.conv.relu = relu;
      forward.example({.inputs = {f32(e.x), f32(e.w), f32({e.w[0]})}, .attrs = Attrs::of(with_relu)});
    }
    gradient.example({.inputs = {f32(e.x), f32(pooled_shape(e)), {DType::kU8, pooled_shape(e)}},
                      .attrs = Attrs::of(ConvLastPoolGradAttrs{attrs, e.w}),
                      .int_high = places});
  }
}

void define_max_pool_last(OpRegistry& ops) {
  OpDef& forward = ops.define<MaxPoolLastAttrs>("max_pool_last")
                       .summary(
                           "Maximum over windows of images that lie batch last; windows touch and need no padding. "
                           "NaN wins, the first maximum on ties.")
                       .input("x", "(C, H, W, N), floating point")
                       .output("y", "(C, H / window, W / window, N)")
                       .output("place", "u8, place of the maximum, counted flat within its window")
                       .infer(infer_max_pool);
  OpDef& gradient = ops.define<MaxPoolLastGradAttrs>("max_pool_last_grad")
                        .summary("Gradient of max_pool_last by its input: g at the places of the maxima, else 0.")
                        .input("g", "gradient of y")
                        .input("place", "output of max_pool_last")
                        .output("dx", "attribute shape")
                        .infer(infer_max_pool_grad);
  for (const Case& e : example_cases()) {
    const TensorType x{DType::kF32, e.y}, y{DType::kF32, pooled_shape(e)}, place{DType::kU8, pooled_shape(e)};
    forward.example({.inputs = {x}, .attrs = Attrs::of(MaxPoolLastAttrs{e.window})});
    gradient.example({.inputs = {y, place},
                      .attrs = Attrs::of(MaxPoolLastGradAttrs{e.window, e.y}),
                      .int_high = e.window[0] * e.window[1]});
  }
}

}  // namespace

void define_batch_last(OpRegistry& ops) {
  define_conv_last(ops);
  define_conv_last_pool(ops);
  define_max_pool_last(ops);
}

}  // namespace aspen
