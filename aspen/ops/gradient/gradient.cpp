// Ops that lead gradients another way than the values: what a model changes behind autograd's back, functions with a
// backward pass of their own, hooks. They mean something to `differentiate` alone; afterwards output i is input i.
#include "aspen/ops/gradient/gradient.h"

#include "aspen/compiler/ir/builder.h"

namespace aspen {
namespace {

std::vector<TensorType> infer_pair(const InferContext& c) {
  c.check(c.in(0) == c.in(1), "a value of type {} cannot stand in for one of type {}.", to_string(c.in(0)),
          to_string(c.in(1)));
  return {c.in(0)};
}

void graft_gradient(GradientContext& c) {
  c.no_gradient(0);
  c.set(1, c.grad());
}

void overwrite_gradient(GradientContext& c) {
  c.set(0, c.grad());
  c.zero(1);
}

std::vector<TensorType> infer_custom_gradient(const InferContext& c) {
  const auto outputs = c.attrs<CustomGradientAttrs>().outputs;
  c.check(outputs >= 1 && static_cast<std::size_t>(outputs) <= c.num_inputs(), "has {} outputs of {} inputs.", outputs,
          c.num_inputs());
  std::vector<TensorType> types;
  for (std::size_t i = 0; i < static_cast<std::size_t>(outputs); ++i) types.push_back(c.in(i));
  return types;
}

void custom_gradient_gradient(GradientContext& c) {
  const auto& function = c.attrs<CustomGradientAttrs>().function;
  if (function == nullptr) {
    throw UserError(
        "[custom_gradient] has no function; it belongs to the process that captured the model and is not kept in "
        "text.");
  }
  std::vector<Value*> arriving;
  for (std::size_t i = 0; i < c.op.num_outputs(); ++i) arriving.push_back(c.grad(i));
  const std::vector<Value*> gradients = function->run(c.op, arriving);
  for (std::size_t i = 0; i < c.op.num_inputs(); ++i) {
    if (gradients[i] != nullptr) {
      c.set(i, gradients[i]);
    } else {
      c.no_gradient(i);
    }
  }
}

}  // namespace

void define_gradient(OpRegistry& ops) {
  ops.define("graft")
      .summary("value; its gradient flows to path instead.")
      .input("value", "any type")
      .input("path", "what gradients are to take value for, same type")
      .output("y", "value")
      .infer(infer_pair)
      .alias()
      .marker()
      .gradient(graft_gradient)
      // The gradient is not that of the value: this is what the op is for.
      .example({.inputs = {{DType::kF32, {3, 5}}, {DType::kF32, {3, 5}}}, .check_gradient = false});

  ops.define("overwrite")
      .summary("value, written over all of old, whose gradient is zero.")
      .input("value", "any type")
      .input("old", "what was there before, same type")
      .output("y", "value")
      .infer(infer_pair)
      .alias()
      .marker()
      .gradient(overwrite_gradient)
      .example({.inputs = {{DType::kF32, {3, 5}}, {DType::kF32, {3, 5}}}});

  ops.define<CustomGradientAttrs>("custom_gradient")
      .summary("The first inputs, with gradients by the others from a function of the front end.")
      .inputs("inputs", "the values, then what they were computed from")
      .outputs("outputs", "the values")
      .infer(infer_custom_gradient)
      .marker()
      .gradient(custom_gradient_gradient);

  ops.define<GradientHookAttrs>("gradient_hook")
      .summary("Shows the whole gradient by x to a function of the front end, which may change it.")
      .input("x", "floating point")
      .infer([](const InferContext&) { return std::vector<TensorType>{}; })
      .marker();
}

}  // namespace aspen
