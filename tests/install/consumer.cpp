// Trains one linear layer to add its inputs, with nothing but the installed headers and library.
#include <poptorch/poptorch.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>

#include <iostream>

struct Adder : torch::nn::Module {
  Adder() { register_module("linear", linear); }
  std::tuple<at::Tensor, at::Tensor> forward(at::Tensor x, at::Tensor sum) {
    at::Tensor y = linear(x);
    return {y, torch::nn::functional::mse_loss(y, sum)};
  }
  torch::nn::Linear linear{3, 1};
};

int main() {
  torch::manual_seed(0);
  auto model = std::make_shared<Adder>();
  auto options = poptorch::Options().deviceIterations(10);
  auto trainer = poptorch::trainingModel(model, options, poptorch::optim::SGD(model->parameters(), {/*lr=*/0.1}));
  for (int call = 0; call < 40; ++call) {
    at::Tensor x = torch::randn({10 * 8, 3});
    auto [y, loss] = trainer(x, x.sum(1, true));
    if (!loss.isfinite().all().item<bool>()) return 1;
  }
  trainer.copyWeightsToHost();
  double error = (model->linear->weight - 1).abs().max().item<double>();
  std::cout << "largest error of a weight: " << error << "\n";
  return error < 1e-3 ? 0 : 1;
}
