// A small network, its batches and its weights: what the tests of optimisers share.
#pragma once

#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace poptorch::tests {

struct Net : torch::nn::Module {
  Net() {
    register_module("first", first);
    register_module("second", second);
  }
  std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, torch::Tensor target) {
    const auto y = second(torch::tanh(first(x)));
    return {y, torch::mse_loss(y, target)};
  }
  torch::nn::Linear first{4, 6}, second{6, 2};
};

inline constexpr int kSteps = 10;

inline std::shared_ptr<Net> make_net() {
  torch::manual_seed(3);
  return std::make_shared<Net>();
}

struct Batch {
  torch::Tensor x, target;
};

inline std::vector<Batch> batches(int count = kSteps) {
  torch::manual_seed(7);
  std::vector<Batch> made;
  for (int i = 0; i < count; ++i) made.push_back({torch::randn({8, 4}), torch::randn({8, 2})});
  return made;
}

template <class Executor>
void train(Executor& executor, const std::vector<Batch>& data) {
  for (const Batch& batch : data) executor(batch.x, batch.target);
}

inline std::map<std::string, torch::Tensor> weights(Net& net) {
  std::map<std::string, torch::Tensor> found;
  for (const auto& entry : net.named_parameters()) found.emplace(entry.key(), entry.value().detach().clone());
  return found;
}

}  // namespace poptorch::tests
