// Activations. Where the slope jumps, the formulas are arranged so that the gradient at the kink is torch's.
#include <cmath>

#include "aspen/ops/random/random.h"
#include "aspen/ops/softmax/softmax.h"
#include "aspen/ops/unary/unary.h"
#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

// Applies f in float32 or better and gives the result the type of self.
template <class F>
void activate(Call& call, F&& f) {
  Expr x = expr(call, call.value("self"));
  if (!aspen::is_floating(x.dtype()))
    throw UserError("[{}] takes floating point tensors, not {}.", call.name(), name_of(x.dtype()));
  call.result(cast(f(in_float(x)), x.dtype()).v, call.dtype("self"));
}

Handler formula(Expr (*f)(Expr)) {
  return [f](Call& call) { activate(call, f); };
}

// relu(Tensor self): integers too
void relu_of(Call& call) { call.result(build::unary(call.b, "relu", call.value("self")), call.dtype("self")); }
// silu(Tensor self)
void silu(Call& call) { call.result(build::unary(call.b, "silu", call.value("self")), call.dtype("self")); }
// gelu(Tensor self, *, str approximate="none")
void gelu(Call& call) {
  std::string approximate = call.text("approximate");
  if (approximate != "none" && approximate != "tanh") {
    throw UserError("[gelu] unknown approximate \"{}\"; the forms are \"none\" and \"tanh\".", approximate);
  }
  call.result(call.b.make("gelu", {call.value("self")}, aspen::GeluAttrs{approximate == "tanh"}), call.dtype("self"));
}
// softplus(Tensor self, Scalar beta=1, Scalar threshold=20)
void softplus_of(Call& call) {
  aspen::SoftplusAttrs attrs{call.number("beta"), call.number("threshold")};
  call.result(call.b.make("softplus", {call.value("self")}, attrs), call.dtype("self"));
}

// hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1), relu6(Tensor self)
void hardtanh(Call& call) {
  Expr x = expr(call, call.value("self"));
  call.result(bounded(x, call.number("min_val"), call.number("max_val")).v, call.dtype("self"));
}
void relu6(Call& call) { call.result(bounded(expr(call, call.value("self")), 0, 6).v, call.dtype("self")); }

// hardsigmoid(Tensor self), hardswish(Tensor self)
Expr hardsigmoid(Expr x) { return unary("hardsigmoid", x); }
Expr hardswish(Expr x) { return unary("hardswish", x); }
Expr mish(Expr x) { return x * tanh(softplus(x)); }
Expr log_sigmoid(Expr x) { return min(x, full(*x.b, x.dtype(), {}, 0)) - log1p(exp(-abs(x))); }

Expr leaky_relu(Expr x, double slope) {
  return expr(*x.b, x.b->make("leaky_relu", {x.v}, aspen::LeakyReluAttrs{slope}));
}
// leaky_relu(Tensor self, Scalar negative_slope=0.01)
void leaky_relu_of(Call& call) {
  activate(call, [&](Expr x) { return leaky_relu(x, call.number("negative_slope")); });
}

// prelu(Tensor self, Tensor weight): one slope, or one per channel (axis 1)
void prelu(Call& call) {
  Expr x = expr(call, call.value("self"));
  Expr weight = expr(call, build::cast(call.b, call.value("weight"), x.dtype()));
  std::int64_t count = weight.numel();
  Shape shape(x.shape().size(), 1);
  if (count != 1) {
    std::int64_t channels = x.rank() < 2 ? 1 : x.size(1);
    if (count != channels) {
      throw UserError("[prelu] {} slopes for an input of shape {}; expected 1 or {}.", count, to_string(x.shape()),
                      channels);
    }
    shape[1] = count;
  }
  call.result(binary("prelu", x, reshape(weight, shape)).v, call.dtype("self"));
}

// rrelu(Tensor self, Scalar lower, Scalar upper, bool training=False, Generator? generator=None)
void rrelu(Call& call) {
  double lower = call.number("lower"), upper = call.number("upper");
  activate(call, [&](Expr x) {
    if (!call.boolean("training")) return leaky_relu(x, (lower + upper) / 2);
    Expr noise =
        expr(call, call.b.make("random_uniform", {}, aspen::RandomAttrs{x.dtype(), x.shape(), call.new_stream()}));
    return where(x > 0.0, x, x * (noise * (upper - lower) + lower));
  });
}

// rrelu_with_noise(Tensor self, Tensor noise, Scalar lower, Scalar upper, bool training=False, Generator?
// generator=None) In training the slope of each element is left in noise: the number drawn where x <= 0, else 1.
void rrelu_with_noise(Call& call) {
  if (!call.boolean("training")) return rrelu(call);
  double lower = call.number("lower"), upper = call.number("upper");
  Expr x = expr(call, call.value("self"));
  Expr drawn =
      expr(call, call.b.make("random_uniform", {}, aspen::RandomAttrs{DType::kF32, x.shape(), call.new_stream()}));
  Expr slope = where(x > 0.0, 1.0, cast(drawn * (upper - lower) + lower, x.dtype()));
  call.write("noise", slope.v);
  call.result((x * slope).v, call.dtype("self"));
}

// The exponential is taken of min(x, 0): the branch that is not used stays finite, and so does its gradient.
Expr exponential_unit(Expr x, double alpha, double scale, double input_scale) {
  Expr below = where(x > 0.0, 0.0, x);
  return where(x > 0.0, x * scale, expm1(below * input_scale) * (alpha * scale));
}
// elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1)
void elu(Call& call) {
  activate(call, [&](Expr x) {
    return exponential_unit(x, call.number("alpha"), call.number("scale"), call.number("input_scale"));
  });
}
Expr selu(Expr x) { return exponential_unit(x, 1.6732632423543772, 1.0507009873554805, 1); }
// celu(Tensor self, Scalar alpha=1.)
void celu(Call& call) {
  double alpha = call.number("alpha");
  activate(call, [&](Expr x) { return exponential_unit(x, alpha, 1, 1 / alpha); });
}

// hardshrink(Tensor self, Scalar lambd=0.5)
void hardshrink(Call& call) {
  double lambda = call.number("lambd");
  activate(call, [&](Expr x) { return where(x >= -lambda && x <= lambda, 0.0, x); });
}
// softshrink(Tensor self, Scalar lambd=0.5)
void softshrink(Call& call) {
  double lambda = call.number("lambd");
  activate(call, [&](Expr x) { return where(x > lambda, x - lambda, where(x < -lambda, x + lambda, x * 0.0)); });
}
// threshold(Tensor self, Scalar threshold, Scalar value)
void threshold(Call& call) {
  Expr x = expr(call, call.value("self"));
  call.result(where(x <= call.number("threshold"), call.number("value"), x).v, call.dtype("self"));
}

// glu(Tensor self, int dim=-1)
void glu(Call& call) {
  Expr x = expr(call, call.value("self"));
  std::int64_t axis = axis_argument(call, "dim", x.shape()), size = x.shape().at(axis);
  if (size % 2 != 0)
    throw UserError("[glu] axis {} of shape {} has odd size {}; it is split in two halves.", axis, to_string(x.shape()),
                    size);
  Expr gate = sigmoid(in_float(slice(x, axis, size / 2, size)));
  call.result(cast(in_float(slice(x, axis, 0, size / 2)) * gate, x.dtype()).v, call.dtype("self"));
}

// log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)
void log_sigmoid_forward(Call& call) {
  activate(call, log_sigmoid);
  call.result(build::full(call.b, call.value("self")->dtype(), {0}, 0), call.dtype("self"));
}

// softmax.int(Tensor self, int dim, ScalarType? dtype=None), log_softmax.int(...)
// _softmax(Tensor self, int dim, bool half_to_float), _log_softmax(...)
Handler softmax(std::string op, bool low_level) {
  return [op, low_level](Call& call) {
    ScalarType type = low_level ? (call.boolean("half_to_float") ? ScalarType::Float : call.dtype("self"))
                                : call.dtype_option("dtype").value_or(call.dtype("self"));
    Value* x = operand(call, "self", type);
    std::int64_t axis = axis_argument(call, "dim", x->shape());
    call.result(call.b.make(op, {x}, aspen::SoftmaxAttrs{axis}), type);
  };
}

}  // namespace

void register_activations(HandlerTable& table) {
  table.add("aten::relu", relu_of);
  table.add("aten::silu", silu);
  table.add("aten::gelu", gelu);
  table.add("aten::softplus", softplus_of);
  table.add("aten::hardtanh", hardtanh);
  table.add("aten::relu6", relu6);
  table.add("aten::hardsigmoid", formula(hardsigmoid));
  table.add("aten::hardswish", formula(hardswish));
  table.add("aten::mish", formula(mish));
  table.add("aten::log_sigmoid", formula(log_sigmoid));
  table.add("aten::log_sigmoid_forward", log_sigmoid_forward);
  table.add("aten::leaky_relu", leaky_relu_of);
  table.add("aten::prelu", prelu);
  table.add("aten::rrelu", rrelu);
  table.add("aten::rrelu_with_noise", rrelu_with_noise);
  table.add("aten::elu", elu);
  table.add("aten::selu", formula(selu));
  table.add("aten::celu", celu);
  table.add("aten::hardshrink", hardshrink);
  table.add("aten::softshrink", softshrink);
  table.add("aten::threshold", threshold);
  table.add("aten::glu", glu);
  table.add("aten::softmax.int", softmax("softmax", false));
  table.add("aten::log_softmax.int", softmax("log_softmax", false));
  table.add("aten::_softmax", softmax("softmax", true));
  table.add("aten::_log_softmax", softmax("log_softmax", true));
}

}  // namespace poptorch
