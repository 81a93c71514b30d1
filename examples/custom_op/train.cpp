// Trains a small network with the operators of leaky_ops, and again with torch's own functions in eager mode; prints
// both losses of each step and fails if they differ.
//   train <path of libleaky_ops.so>
#include <dlfcn.h>
#include <poptorch/poptorch.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <cstdio>

struct Net : torch::nn::Module {
  Net() {
    register_module("first", first);
    register_module("second", second);
  }

  at::Tensor forward(at::Tensor x, at::Tensor target) {
    x = first(x);
    x = poptorch::customOp({x}, "LeakyRelu", "example.ops", 1, {x}, {{"alpha", 0.1F}})[0];
    x = second(x);
    x = poptorch::customOp({x}, "Cube", "example.ops", 1, {x})[0];
    return torch::nn::functional::mse_loss(x, target);
  }

  at::Tensor eager(at::Tensor x, at::Tensor target) {
    x = torch::nn::functional::leaky_relu(first(x), torch::nn::functional::LeakyReLUFuncOptions().negative_slope(0.1));
    x = second(x);
    return torch::nn::functional::mse_loss(x * x * x, target);
  }

  torch::nn::Linear first{4, 8}, second{8, 2};
};

int main(int count, char** arguments) {
  if (count != 2 || dlopen(arguments[1], RTLD_NOW) == nullptr) {
    std::fprintf(stderr, "usage: train <path of libleaky_ops.so>; %s\n", count == 2 ? dlerror() : "no path given");
    return 2;
  }
  torch::manual_seed(1);
  auto model = std::make_shared<Net>();
  torch::manual_seed(1);
  auto plain = std::make_shared<Net>();  // the same weights
  auto trainer =
      poptorch::trainingModel(model, poptorch::Options(), poptorch::optim::SGD(model->parameters(), {.lr = 0.05}));
  torch::optim::SGD optimizer(plain->parameters(), 0.05);
  const at::Tensor x = torch::randn({16, 4}), target = torch::randn({16, 2});
  double first_loss = 0, loss = 0;
  for (int step = 0; step < 20; ++step) {
    loss = trainer(x, target).item<float>();
    optimizer.zero_grad();
    at::Tensor wanted = plain->eager(x, target);
    wanted.backward();
    optimizer.step();
    std::printf("%.6f %.6f\n", loss, wanted.item<double>());
    if (std::abs(loss - wanted.item<double>()) > 1e-5 * (1 + std::abs(loss))) return 1;
    if (step == 0) first_loss = loss;
  }
  return loss < first_loss ? 0 : 1;
}
