// Convolutions over one to three spatial axes. With N batch, C channels in, O channels out, taps t and groups,
//   y[n, o, p]  = bias[o] + sum over c, t of w[o, c, t] * x[n, c, p * stride + t * dilation - padding]
//   conv_affine:       min(max(y * scale[o] + shift[o] + other[n, o, p], low), high), made by fuse_convolutions
//   conv_input_grad:   dx = the same sum read by x, given g and w
//   conv_weight_grad:  dw = the same sum read by w, given x and g
// The three are the gradients of one another, since the sum is linear in x, w and g alike. conv_float,
// conv_input_grad_float and conv_weight_grad_float are those of operands in bf16, with the sums as they are, in f32;
// made by round_products.
#include "aspen/ops/conv/conv.h"

#include <cmath>

#include "aspen/ops/build.h"

namespace aspen {
namespace {

std::int64_t output_extent(const ConvAttrs& attrs, std::size_t axis, std::int64_t in, std::int64_t kernel) {
  return (in + 2 * attrs.padding[axis] - attrs.dilation[axis] * (kernel - 1) - 1) / attrs.stride[axis] + 1;
}

// The type of conv(x, w) after checking that the two fit each other.
TensorType result_of(const InferContext& c, const ConvAttrs& attrs, const TensorType& x, const TensorType& w) {
  c.check((is_floating(x.dtype) || x.dtype == DType::kI32) && x.dtype == w.dtype,
          "takes operands of one type, floating point or i32, not {} and {}.", to_string(x), to_string(w));
  auto axes = x.shape.size() - 2;
  c.check(x.rank() >= 3 && x.rank() <= 5 && w.rank() == x.rank(),
          "takes an input (N, C, spatial...) with one to three spatial axes and a weight of that rank, not {} and {}.",
          to_string(x), to_string(w));
  c.check(attrs.stride.size() == axes && attrs.padding.size() == axes && attrs.dilation.size() == axes,
          "stride {}, padding {} and dilation {} need one entry per spatial axis of {}.", to_string(attrs.stride),
          to_string(attrs.padding), to_string(attrs.dilation), to_string(x));
  auto groups = attrs.groups;
  c.check(
      groups >= 1 && w.shape[0] % groups == 0 && x.shape[1] == w.shape[1] * groups,
      "{} channels do not fit a weight {} in {} groups; expected weight (O, C / groups, kernel...), O a multiple of "
      "groups.",
      x.shape[1], to_string(w), groups);
  TensorType y{x.dtype, {x.shape[0], w.shape[0]}};
  for (std::size_t i = 0; i < axes; ++i) {
    c.check(attrs.stride[i] >= 1 && attrs.dilation[i] >= 1 && attrs.padding[i] >= 0,
            "stride {}, padding {}, dilation {} on spatial axis {}; expected stride, dilation >= 1 and padding >= 0.",
            attrs.stride[i], attrs.padding[i], attrs.dilation[i], i);
    auto reach = attrs.dilation[i] * (w.shape[i + 2] - 1) + 1;
    c.check(x.shape[i + 2] + 2 * attrs.padding[i] >= reach,
            "the kernel reaches over {} elements, but spatial axis {} of {} has {} with padding.", reach, i,
            to_string(x), x.shape[i + 2] + 2 * attrs.padding[i]);
    y.shape.push_back(output_extent(attrs, i, x.shape[i + 2], w.shape[i + 2]));
  }
  return y;
}

void check_operand(const InferContext& c, std::size_t input, const char* name, const TensorType& expected) {
  if (!c.has(input)) return;
  c.check(c.in(input) == expected, "the {} is {}, expected {}.", name, to_string(c.in(input)), to_string(expected));
}

TensorType infer_forward(const InferContext& c, const ConvAttrs& attrs) {
  TensorType y = result_of(c, attrs, c.in(0), c.in(1));
  check_operand(c, 2, "bias", {y.dtype, {y.shape[1]}});
  return y;
}

std::vector<TensorType> infer_conv(const InferContext& c) { return {infer_forward(c, c.attrs<ConvAttrs>())}; }

std::vector<TensorType> infer_affine(const InferContext& c) {
  const auto& attrs = c.attrs<ConvAffineAttrs>();
  TensorType y = infer_forward(c, attrs.conv);
  c.check(is_floating(y.dtype), "takes floating point, not {}.", to_string(y));
  c.check(!std::isnan(attrs.low) && !std::isnan(attrs.high), "bounds {} and {}; expected numbers.", attrs.low,
          attrs.high);
  TensorType channels{y.dtype, Shape(y.shape.size(), 1)};
  channels.shape[1] = y.shape[1];
  check_operand(c, 3, "scale", channels);
  check_operand(c, 4, "shift", channels);
  check_operand(c, 5, "other summand", y);
  return {y};
}

void check_gradient_of(const InferContext& c, const TensorType& g, const TensorType& y) {
  c.check(g == y, "the gradient is {}, but the convolution it belongs to yields {}.", to_string(g), to_string(y));
}

std::vector<TensorType> infer_input_grad(const InferContext& c) {
  const auto& attrs = c.attrs<ConvGradAttrs>();
  TensorType x{c.in(0).dtype, attrs.shape};
  check_gradient_of(c, c.in(0), result_of(c, attrs.conv, x, c.in(1)));
  return {x};
}

std::vector<TensorType> infer_weight_grad(const InferContext& c) {
  const auto& attrs = c.attrs<ConvGradAttrs>();
  TensorType w{c.in(0).dtype, attrs.shape};
  check_gradient_of(c, c.in(1), result_of(c, attrs.conv, c.in(0), w));
  return {w};
}

// A kernel of w.numel / channels per element of the convolution's result; the gradients do the same work.
double conv_products(const Value& w, const Value& y) {
  double channels = static_cast<double>(std::max<std::int64_t>(1, w.shape()[0]));
  return static_cast<double>(y.type().numel()) * static_cast<double>(w.type().numel()) / channels;
}

// Operands in bf16, a bias and the result in f32.
std::vector<TensorType> in_float(const InferContext& c, TensorType result) {
  c.check(c.in(0).dtype == DType::kBF16, "takes operands in bf16, not {}.", to_string(c.in(0)));
  result.dtype = DType::kF32;
  return {result};
}

std::vector<TensorType> infer_conv_float(const InferContext& c) {
  std::vector<TensorType> y = in_float(c, result_of(c, c.attrs<ConvAttrs>(), c.in(0), c.in(1)));
  check_operand(c, 2, "bias", {DType::kF32, {y[0].shape[1]}});
  return y;
}

std::vector<TensorType> infer_input_grad_float(const InferContext& c) { return in_float(c, infer_input_grad(c)[0]); }
std::vector<TensorType> infer_weight_grad_float(const InferContext& c) { return in_float(c, infer_weight_grad(c)[0]); }

void conv_gradient(GradientContext& c) {
  const auto& attrs = c.attrs<ConvAttrs>();
  Value *x = c.in(0), *w = c.in(1), *g = c.grad();
  if (c.needs(0)) c.set(0, c.b.make("conv_input_grad", {g, w}, ConvGradAttrs{attrs, x->shape()}));
  if (c.needs(1)) c.set(1, c.b.make("conv_weight_grad", {x, g}, ConvGradAttrs{attrs, w->shape()}));
  if (c.in(2) != nullptr && c.needs(2)) {
    std::vector<std::int64_t> axes{0};
    for (std::int64_t i = 2; i < g->rank(); ++i) axes.push_back(i);
    c.set(2, build::reduce_sum(c.b, g, axes));
  }
}

// Here the incoming gradient has the shape of x and takes its place.
void input_grad_gradient(GradientContext& c) {
  const auto& attrs = c.attrs<ConvGradAttrs>();
  Value *g = c.in(0), *w = c.in(1);
  if (c.needs(0)) c.set(0, c.b.make("conv", {c.grad(), w, nullptr}, attrs.conv));
  if (c.needs(1)) c.set(1, c.b.make("conv_weight_grad", {c.grad(), g}, ConvGradAttrs{attrs.conv, w->shape()}));
}

struct Case {
  Shape x, w, y;
  ConvAttrs attrs;
};

// One, two and three axes; strides that leave a rest, dilation, groups, depthwise, pointwise.
std::vector<Case> example_cases() {
  return {
      {{2, 3, 9}, {4, 3, 3}, {2, 4, 5}, {{2}, {1}, {1}, 1}},
      {{2, 3, 6, 7}, {4, 3, 3, 2}, {2, 4, 6, 8}, {{1, 1}, {1, 1}, {1, 1}, 1}},
      {{1, 4, 8, 8}, {6, 2, 3, 3}, {1, 6, 3, 4}, {{2, 2}, {0, 1}, {1, 1}, 2}},
      {{1, 3, 7, 9}, {3, 1, 3, 3}, {1, 3, 5, 5}, {{1, 2}, {1, 2}, {2, 2}, 3}},
      {{2, 5, 4, 4}, {3, 5, 1, 1}, {2, 3, 4, 4}, {{1, 1}, {0, 0}, {1, 1}, 1}},
      {{1, 2, 4, 5, 4}, {3, 2, 2, 3, 2}, {1, 3, 3, 5, 2}, {{1, 1, 2}, {0, 1, 0}, {1, 1, 1}, 1}},
  };
}

}  // namespace

void define_conv(OpRegistry& ops) {
  auto f32 = [](const Shape& shape) { return TensorType{DType::kF32, shape}; };
  OpDef& conv = ops.define<ConvAttrs>("conv")
                    .summary("Convolution (cross-correlation, as in PyTorch) over one to three spatial axes.")
                    .input("x", "(N, C, spatial...), floating point or i32")
                    .input("w", "(O, C / groups, kernel...)")
                    .optional_input("bias", "(O)")
                    .output("y", "(N, O, spatial...)")
                    .infer(infer_conv)
                    .gradient(conv_gradient)
                    .products([](const Op& op) { return conv_products(*op.input(1), *op.output()); });
  OpDef& affine = ops.define<ConvAffineAttrs>("conv_affine")
                      .summary(
                          "A convolution and what follows it: times scale, plus shift, plus another tensor, between "
                          "bounds; each step rounds as the op it stands for, and NaN stays.")
                      .input("x", "(N, C, spatial...), floating point")
                      .input("w", "(O, C / groups, kernel...)")
                      .optional_input("bias", "(O)")
                      .optional_input("scale", "(1, O, 1...)")
                      .optional_input("shift", "(1, O, 1...)")
                      .optional_input("other", "shape of y")
                      .output("y", "(N, O, spatial...)")
                      .infer(infer_affine)
                      .products([](const Op& op) { return conv_products(*op.input(1), *op.output()); });
  OpDef& input_grad = ops.define<ConvGradAttrs>("conv_input_grad")
                          .summary("Gradient of conv by its input; the forward pass of a transposed convolution.")
                          .input("g", "gradient of the convolution's result")
                          .input("w", "weight of the convolution")
                          .output("dx", "attribute shape")
                          .infer(infer_input_grad)
                          .gradient(input_grad_gradient)
                          .products([](const Op& op) { return conv_products(*op.input(1), *op.input(0)); });
  OpDef& weight_grad = ops.define<ConvGradAttrs>("conv_weight_grad")
                           .summary("Gradient of conv by its weight.")
                           .input("x", "input of the convolution")
                           .input("g", "gradient of the convolution's result")
                           .output("dw", "attribute shape")
                           .infer(infer_weight_grad)
                           .products([](const Op& op) { return conv_products(*op.output(), *op.input(1)); });
  OpDef& in_float = ops.define<ConvAttrs>("conv_float")
                        .summary("conv of operands in bf16, with its sums as they are.")
                        .input("x", "(N, C, spatial...), bf16")
                        .input("w", "(O, C / groups, kernel...), bf16")
                        .optional_input("bias", "(O), f32")
                        .output("y", "(N, O, spatial...), f32")
                        .infer(infer_conv_float)
                        .products([](const Op& op) { return conv_products(*op.input(1), *op.output()); });
  OpDef& input_grad_in_float = ops.define<ConvGradAttrs>("conv_input_grad_float")
                                   .summary("conv_input_grad of operands in bf16, with its sums as they are.")
                                   .input("g", "gradient of the convolution's result, bf16")
                                   .input("w", "weight of the convolution, bf16")
                                   .output("dx", "attribute shape, f32")
                                   .infer(infer_input_grad_float)
                                   .products([](const Op& op) { return conv_products(*op.input(1), *op.input(0)); });
  OpDef& weight_grad_in_float = ops.define<ConvGradAttrs>("conv_weight_grad_float")
                                    .summary("conv_weight_grad of operands in bf16, with its sums as they are.")
                                    .input("x", "input of the convolution, bf16")
                                    .input("g", "gradient of the convolution's result, bf16")
                                    .output("dw", "attribute shape, f32")
                                    .infer(infer_weight_grad_float)
                                    .products([](const Op& op) { return conv_products(*op.output(), *op.input(1)); });
  for (const Case& e : example_cases()) {
    conv.example({.inputs = {f32(e.x), f32(e.w), f32({e.w[0]})}, .attrs = Attrs::of(e.attrs)});
    Shape channels(e.y.size(), 1);
    channels[1] = e.w[0];
    affine.example({.inputs = {f32(e.x), f32(e.w), f32({e.w[0]}), f32(channels), f32(channels), f32(e.y)},
                    .attrs = Attrs::of(ConvAffineAttrs{e.attrs, -0.5, 1})});
    input_grad.example({.inputs = {f32(e.y), f32(e.w)}, .attrs = Attrs::of(ConvGradAttrs{e.attrs, e.x})});
    weight_grad.example({.inputs = {f32(e.x), f32(e.y)}, .attrs = Attrs::of(ConvGradAttrs{e.attrs, e.w})});
    auto bf16 = [](const Shape& shape) { return TensorType{DType::kBF16, shape}; };
    in_float.example({.inputs = {bf16(e.x), bf16(e.w), f32({e.w[0]})}, .attrs = Attrs::of(e.attrs)});
    input_grad_in_float.example({.inputs = {bf16(e.y), bf16(e.w)}, .attrs = Attrs::of(ConvGradAttrs{e.attrs, e.x})});
    weight_grad_in_float.example({.inputs = {bf16(e.x), bf16(e.y)}, .attrs = Attrs::of(ConvGradAttrs{e.attrs, e.w})});
  }
  conv.example({.inputs = {{DType::kF16, {1, 2, 5, 5}}, {DType::kF16, {3, 2, 3, 3}}, {DType::kF16, {3}}},
                .attrs = Attrs::of(ConvAttrs{{1, 1}, {1, 1}, {1, 1}, 1})});
  const TensorType integers{DType::kI32, {2, 4, 7}}, weights{DType::kI32, {6, 2, 3}};
  const ConvAttrs grouped{{2}, {1}, {1}, 2};
  conv.example(
      {.inputs = {integers, weights, {DType::kI32, {6}}}, .attrs = Attrs::of(grouped), .int_low = -5, .int_high = 6});
  input_grad.example({.inputs = {{DType::kI32, {2, 6, 4}}, weights},
                      .attrs = Attrs::of(ConvGradAttrs{grouped, integers.shape}),
                      .int_low = -5,
                      .int_high = 6});
}

}  // namespace aspen
