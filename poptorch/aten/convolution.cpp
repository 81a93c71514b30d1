// Convolutions, plain and transposed, of one to three spatial axes. A transposed convolution is the gradient of a
// plain one by its input. Weight and bias take the activation's type.
#include "aspen/ops/conv/conv.h"
#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

using aspen::ConvAttrs;

struct Operands {
  Expr x;  // (N, C, spatial...)
  Expr w;
  Value* bias;
  bool unbatched;
  std::size_t spatial;
};

Operands operands(Call& call) {
  ScalarType type = call.dtype("input");
  if (!is_float(type) && graph_dtype(type) != DType::kI32) decline("a convolution of small integers");
  Operands o{expr(call, call.value("input")), expr(call, operand(call, "weight", type)),
             call.has("bias") ? operand(call, "bias", type) : nullptr, false, 0};
  o.spatial = o.w.shape().size() - 2;
  o.unbatched = o.x.shape().size() == o.spatial + 1;
  if (o.unbatched) o.x = unsqueeze(o.x, 0);
  if (o.x.shape().size() != o.spatial + 2) {
    throw UserError(
        "[{}] an input of shape {} does not fit a weight of shape {}; expected {} axes, or {} without the batch.",
        call.name(), to_string(o.x.shape()), to_string(o.w.shape()), o.spatial + 2, o.spatial + 1);
  }
  return o;
}

void finish(Call& call, const Operands& o, Expr y) {
  call.result((o.unbatched ? squeeze(y, 0) : y).v, call.dtype("input"));
}

void plain(Call& call, Operands o, const ConvAttrs& attrs) {
  if (o.x.size(1) != o.w.size(1) * attrs.groups) {
    throw UserError("[{}] the input has {} channels, a weight of shape {} in {} groups takes {}.", call.name(),
                    o.x.size(1), to_string(o.w.shape()), attrs.groups, o.w.size(1) * attrs.groups);
  }
  finish(call, o, expr(call, call.b.make("conv", {o.x.v, o.w.v, o.bias}, attrs)));
}

// Output extent: (in - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1
void transposed(Call& call, Operands o, const ConvAttrs& given, const std::vector<std::int64_t>& output_padding) {
  if (o.x.size(1) != o.w.size(0)) {
    throw UserError("[{}] the input has {} channels, a weight of shape {} takes {}.", call.name(), o.x.size(1),
                    to_string(o.w.shape()), o.w.size(0));
  }
  // As far as the stride, the last positions belong to no step of a plain convolution. Then nothing is cropped at
  // first: `low` and `high` are what remains to be taken away (or, of zeros, to be added).
  ConvAttrs attrs = given;
  Shape shape{o.x.size(0), o.w.size(1) * attrs.groups}, low(o.spatial + 2, 0), high(o.spatial + 2, 0);
  for (std::size_t i = 0; i < o.spatial; ++i) {
    if (output_padding[i] >= std::max(attrs.stride[i], attrs.dilation[i])) {
      throw UserError("[{}] output_padding {} must be smaller than the stride {} or the dilation {}.", call.name(),
                      output_padding[i], attrs.stride[i], attrs.dilation[i]);
    }
    std::int64_t more = output_padding[i];
    if (more >= attrs.stride[i]) {
      low[i + 2] = -attrs.padding[i], high[i + 2] = more - attrs.padding[i];
      attrs.padding[i] = more = 0;
    }
    shape.push_back((o.x.shape()[i + 2] - 1) * attrs.stride[i] - 2 * attrs.padding[i] +
                    attrs.dilation[i] * (o.w.shape()[i + 2] - 1) + more + 1);
  }
  // The bias is added before the sums are rounded.
  auto summed = [&](Expr operand) { return o.bias == nullptr ? operand : in_float(operand); };
  Expr y =
      expr(call, call.b.make("conv_input_grad", {summed(o.x).v, summed(o.w).v}, aspen::ConvGradAttrs{attrs, shape}));
  y = pad(y, low, high);
  if (o.bias != nullptr) {
    Shape wide(shape.size(), 1);
    wide[1] = shape[1];
    y = cast(y + reshape(summed(expr(call, o.bias)), wide), o.x.dtype());
  }
  finish(call, o, y);
}

ConvAttrs attributes(Call& call, std::size_t spatial, std::vector<std::int64_t> padding) {
  return {repeated(call.integers("stride"), spatial), std::move(padding), repeated(call.integers("dilation"), spatial),
          call.integer("groups")};
}

// conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, int[2] dilation=1, int
// groups=1), conv1d, conv3d
void conv(Call& call) {
  Operands o = operands(call);
  plain(call, o, attributes(call, o.spatial, repeated(call.integers("padding"), o.spatial)));
}

// conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, str padding="valid", int[2]
// dilation=1, int groups=1), conv1d.padding, conv3d.padding, _convolution_mode(...). An odd total pads one more on the
// right.
void conv_named_padding(Call& call) {
  Operands o = operands(call);
  ConvAttrs attrs = attributes(call, o.spatial, std::vector<std::int64_t>(o.spatial, 0));
  std::string padding = call.text("padding");
  if (padding == "same") {
    Shape high(o.spatial + 2, 0);
    for (std::size_t i = 0; i < o.spatial; ++i) {
      if (attrs.stride[i] != 1)
        throw UserError("[{}] padding \"same\" needs stride 1, not {}.", call.name(), attrs.stride[i]);
      std::int64_t total = attrs.dilation[i] * (o.w.shape()[i + 2] - 1);
      attrs.padding[i] = total / 2;
      high[i + 2] = total % 2;
    }
    o.x = pad(o.x, Shape(o.spatial + 2, 0), high);
  } else if (padding != "valid") {
    throw UserError("[{}] unknown padding \"{}\"; the names are \"valid\" and \"same\".", call.name(), padding);
  }
  plain(call, o, attrs);
}

// conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, int[2]
// output_padding=0, int groups=1, int[2] dilation=1), conv_transpose1d, conv_transpose3d.input
void conv_transpose(Call& call) {
  Operands o = operands(call);
  ConvAttrs attrs = attributes(call, o.spatial, repeated(call.integers("padding"), o.spatial));
  transposed(call, o, attrs, repeated(call.integers("output_padding"), o.spatial));
}

// convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, bool transposed,
// int[] output_padding, int groups), _convolution(...), _convolution.deprecated(...): with flags for other devices
void convolution(Call& call) {
  if (call.boolean("transposed")) return conv_transpose(call);
  conv(call);
}

// conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0): self (T, B, C), weight (K, C, O)
void conv_tbc(Call& call) {
  ScalarType type = call.dtype("self");
  Expr x = transpose(expr(call, call.value("self")), {1, 2, 0});
  Expr w = transpose(expr(call, operand(call, "weight", type)), {2, 1, 0});
  ConvAttrs attrs{{1}, {call.integer("pad")}, {1}, 1};
  Expr y = expr(call, call.b.make("conv", {x.v, w.v, operand(call, "bias", type)}, attrs));
  call.result(transpose(y, {2, 0, 1}).v, type);
}

}  // namespace

void register_convolution(HandlerTable& table) {
  for (const char* name : {"aten::conv1d", "aten::conv2d", "aten::conv3d"}) {
    table.add(name, conv);
    table.add(std::string(name) + ".padding", conv_named_padding);
  }
  for (const char* name : {"aten::conv_transpose1d", "aten::conv_transpose2d.input", "aten::conv_transpose3d.input"}) {
    table.add(name, conv_transpose);
  }
  for (const char* name : {"aten::convolution", "aten::_convolution", "aten::_convolution.deprecated"}) {
    table.add(name, convolution);
  }
  table.add("aten::_convolution_mode", conv_named_padding);
  table.add("aten::conv_tbc", conv_tbc);
}

}  // namespace poptorch
