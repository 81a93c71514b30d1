// lstm_gates: a step of an LSTM but for its product. With z = a + b + bias in four parts of H columns:
//   i, f, o = sigmoid(z_i), sigmoid(z_f), sigmoid(z_o),  g = tanh(z_g),  c' = f c + i g,  h = o tanh(c')
// and backward, with t = tanh(c') made again and d = dc' + dh o (1 - t^2):
//   dz = (d g i (1 - i), d c f (1 - f), d i (1 - g^2), dh t o (1 - o)),  dc = d f
// One op, as the tensors of a step are so small that calls of twenty cost as much as the product.
#include "aspen/ops/build.h"

namespace aspen {
namespace {

// The type of a state, c or h, given that of the gates.
TensorType state_of(const InferContext& c, const TensorType& gates) {
  c.check(is_floating(gates.dtype) && gates.rank() == 2 && gates.shape[1] % 4 == 0,
          "takes floating point gates (N, 4 H), not {}.", to_string(gates));
  return {gates.dtype, {gates.shape[0], gates.shape[1] / 4}};
}

std::vector<TensorType> infer_gates(const InferContext& c) {
  const TensorType& gates = c.in(0);
  const TensorType state = state_of(c, gates), bias{gates.dtype, {gates.shape[1]}};
  c.check(c.in(1) == gates, "cannot add {} to {}.", to_string(c.in(1)), to_string(gates));
  if (c.has(2)) c.check(c.in(2) == bias, "takes a bias {}, not {}.", to_string(bias), to_string(c.in(2)));
  c.check(c.in(3) == state, "takes a state {}, not {}.", to_string(state), to_string(c.in(3)));
  return {state, state, gates};
}

std::vector<TensorType> infer_gates_grad(const InferContext& c) {
  const TensorType state = state_of(c, c.in(0));
  for (std::size_t i : {1, 2, 3}) {
    if (i > 1 && !c.has(i)) continue;
    c.check(c.in(i) == state, "takes states {}, not {}.", to_string(state), to_string(c.in(i)));
  }
  return {c.in(0), state};
}

void gates_gradient(GradientContext& c) {
  Op* op = c.b.emit("lstm_gates_grad", {c.out(2), c.in(3), c.grad(0), c.grad(1)});
  Value* gates = op->output(0);
  c.set(0, gates);
  c.set(1, gates);
  if (c.in(2) != nullptr) c.set(2, build::reduce_to(c.b, gates, c.in(2)->shape()));
  c.set(3, op->output(1));
}

}  // namespace

void define_lstm(OpRegistry& ops) {
  OpDef& forward = ops.define("lstm_gates")
                       .summary("A step of an LSTM after its products.")
                       .input("a", "(N, 4 H), gates in the order i, f, g, o: their share of the input")
                       .input("b", "as a: their share of the last h")
                       .optional_input("bias", "(4 H)")
                       .input("c", "(N, H)")
                       .output("h", "(N, H)")
                       .output("new_c", "(N, H)")
                       .output("gates", "(N, 4 H), after sigmoid and tanh; for the gradient")
                       .infer(infer_gates)
                       .inplace(1, 3)
                       .inplace(2, 0)
                       .inplace(2, 1)
                       .gradient(gates_gradient);
  OpDef& gradient = ops.define("lstm_gates_grad")
                        .summary("Gradients of lstm_gates by the gates before sigmoid and tanh, and by c.")
                        .input("gates", "output of lstm_gates")
                        .input("c", "input of lstm_gates")
                        .optional_input("dh", "gradient of h")
                        .optional_input("dnew_c", "gradient of new_c")
                        .output("dgates", "(N, 4 H)")
                        .output("dc", "(N, H)")
                        .infer(infer_gates_grad)
                        .inplace(0, 0)
                        .inplace(1, 3);
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (std::int64_t width : {5, 37}) {
      const TensorType gates{type, {3, 4 * width}}, bias{type, {4 * width}}, state{type, {3, width}};
      forward.example({.inputs = {gates, gates, bias, state}});
      gradient.example({.inputs = {gates, state, state, state}, .low = 0.1, .high = 0.9});
    }
  }
}

}  // namespace aspen
