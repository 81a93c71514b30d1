#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include <iostream>

struct Adder : torch::nn::Module {
  Adder() { register_module("linear", linear); }
  std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, torch::Tensor sum) {
    auto y = linear(x);
    return {y, torch::mse_loss(y, sum)};
  }
  torch::nn::Linear linear{3, 1};
};

int main() {
  auto model = std::make_shared<Adder>();
  poptorch::optim::SGD sgd(model->parameters(), {.lr = 0.1});
  auto trainer = poptorch::trainingModel(model, poptorch::Options(), sgd);
  for (int step = 0; step < 100; ++step) {
    auto x = torch::randn({8, 3});
    auto [y, loss] = trainer(x, x.sum(1, true));
    std::cout << loss.item<float>() << "\n";
  }
}
