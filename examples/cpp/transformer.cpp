// Trains a small transformer in half precision: a pipeline of two stages, twice, with the state of the optimiser kept
// off the devices. The task is to say each token of a sequence back to front.
//
//   transformer [--steps N] [--load WEIGHTS] [--save WEIGHTS]
//
// Prints the loss of every step. WEIGHTS: files of torch::save and torch::load.
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <string>

#include "arguments.h"

namespace {

constexpr std::int64_t kTokens = 16, kLength = 8, kWidth = 32, kHeads = 4;
constexpr std::int64_t kBatch = 4, kAccumulation = 4, kReplicas = 2;

struct LayerImpl : torch::nn::Module {
  LayerImpl() {
    register_module("norm1", norm1);
    register_module("qkv", qkv);
    register_module("out", out);
    register_module("norm2", norm2);
    register_module("up", up);
    register_module("down", down);
  }

  torch::Tensor attention(const torch::Tensor& x) {
    const std::int64_t batch = x.size(0);
    const auto parts = qkv(x).view({batch, kLength, 3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4});
    const auto scores = torch::matmul(parts[0], parts[1].transpose(-2, -1)) / std::sqrt(kWidth / kHeads);
    const auto mixed = torch::matmul(torch::softmax(scores, -1), parts[2]);
    return out(mixed.transpose(1, 2).reshape({batch, kLength, kWidth}));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = x + attention(norm1(x));
    return x + down(torch::gelu(up(norm2(x))));
  }

  torch::nn::LayerNorm norm1{torch::nn::LayerNormOptions({kWidth})}, norm2{torch::nn::LayerNormOptions({kWidth})};
  torch::nn::Linear qkv{kWidth, 3 * kWidth}, out{kWidth, kWidth}, up{kWidth, 4 * kWidth}, down{4 * kWidth, kWidth};
};
TORCH_MODULE(Layer);

struct TransformerImpl : torch::nn::Module {
  TransformerImpl() {
    register_module("tokens", tokens);
    register_module("layer1", layer1);
    register_module("layer2", layer2);
    register_module("head", head);
  }

  // Tokens (B, length) -> scores (B, length, tokens) and the loss.
  std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, torch::Tensor wanted) {
    poptorch::Block::start("first", 0);
    x = layer1(tokens(x) + places);
    poptorch::Block::start("second", 1);
    const auto scores = head(layer2(x));
    const auto loss = torch::cross_entropy_loss(scores.flatten(0, 1).to(torch::kFloat), wanted.flatten());
    return {scores, loss};
  }

  torch::nn::Embedding tokens{kTokens, kWidth};
  torch::Tensor places = register_parameter("places", torch::zeros({kLength, kWidth}));
  Layer layer1, layer2;
  torch::nn::Linear head{kWidth, kTokens};
};

void run(int steps, const std::string& load, const std::string& save) {
  torch::manual_seed(1);
  auto net = std::make_shared<TransformerImpl>();
  if (!load.empty()) torch::load(net, load);
  net->to(torch::kHalf);

  poptorch::Options options;
  options.replicationFactor(kReplicas).setExecutionStrategy(poptorch::PipelinedExecution({"first", "second"}));
  options.outputMode(poptorch::OutputMode::Sum);
  options.Training.gradientAccumulation(kAccumulation);
  options.TensorLocations.setOptimizerLocation(poptorch::TensorLocationSettings().useOnChipStorage(false));
  poptorch::optim::AdamW optimizer(net->parameters(), {.lr = 2e-3, .eps = 1e-6, .loss_scaling = 128});
  auto trainer = poptorch::trainingModel(net, options, optimizer);

  torch::manual_seed(2);
  for (int step = 0; step < steps; ++step) {
    const auto x = torch::randint(0, kTokens, {kBatch * kAccumulation * kReplicas, kLength});
    const auto [scores, losses] = trainer(x, x.flip(1));  // a sum of losses from each replica
    std::printf("%.9g\n", losses.sum().item<double>() / (kAccumulation * kReplicas));
  }
  trainer.copyWeightsToHost();
  if (!save.empty()) torch::save(net, save);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto options = read_arguments(argc, argv, {{"--steps", "300"}, {"--load", ""}, {"--save", ""}});
    run(std::stoi(options.at("--steps")), options.at("--load"), options.at("--save"));
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
