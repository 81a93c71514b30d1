// Two operators: LeakyRelu, whose gradient is an operator of its own, and Cube, whose gradient is made of torch's
// functions.
#include <ATen/TensorOperators.h>
#include <poptorch/custom_op.h>

namespace {

using poptorch::CustomOpAttributes;
using poptorch::CustomOpGradient;
using poptorch::TensorSpec;
using Tensors = std::vector<at::Tensor>;
using Specs = std::vector<TensorSpec>;

// One result, like the first input.
Specs like_the_input(const Specs& inputs, const CustomOpAttributes&) { return {inputs.at(0)}; }

const poptorch::RegisteredCustomOp leaky_relu({
    .name = "LeakyRelu",
    .domain = "example.ops",
    .version = 1,
    .shapes = like_the_input,
    .kernel =
        [](const Tensors& inputs, const Tensors& outputs, const CustomOpAttributes& attributes) {
          const float slope = attributes.get<float>("alpha");
          const float* x = inputs[0].data_ptr<float>();
          float* y = outputs[0].data_ptr<float>();
          for (std::int64_t i = 0; i < inputs[0].numel(); ++i) y[i] = x[i] > 0 ? x[i] : slope * x[i];
        },
    .gradient = [](const CustomOpGradient& call) -> Tensors {
      const Tensors operands = {call.inputs[0], call.output_gradients[0]};
      return poptorch::customOp(operands, "LeakyReluGrad", "example.ops", 1, {call.inputs[0]}, call.attributes);
    },
});

const poptorch::RegisteredCustomOp leaky_relu_gradient({
    .name = "LeakyReluGrad",
    .domain = "example.ops",
    .version = 1,
    .shapes = like_the_input,
    .kernel =
        [](const Tensors& inputs, const Tensors& outputs, const CustomOpAttributes& attributes) {
          const float slope = attributes.get<float>("alpha");
          const float* x = inputs[0].data_ptr<float>();
          const float* gradient = inputs[1].data_ptr<float>();
          float* result = outputs[0].data_ptr<float>();
          for (std::int64_t i = 0; i < inputs[0].numel(); ++i) result[i] = x[i] > 0 ? gradient[i] : slope * gradient[i];
        },
});

const poptorch::RegisteredCustomOp cube({
    .name = "Cube",
    .domain = "example.ops",
    .version = 1,
    .shapes = like_the_input,
    .kernel =
        [](const Tensors& inputs, const Tensors& outputs, const CustomOpAttributes&) {
          const float* x = inputs[0].data_ptr<float>();
          float* y = outputs[0].data_ptr<float>();
          for (std::int64_t i = 0; i < inputs[0].numel(); ++i) y[i] = x[i] * x[i] * x[i];
        },
    .gradient = [](const CustomOpGradient& call) -> Tensors {
      return {call.output_gradients[0] * 3 * call.inputs[0] * call.inputs[0]};
    },
});

}  // namespace
