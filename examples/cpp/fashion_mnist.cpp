// Trains a small convolutional network on Fashion-MNIST from C++ and prints its accuracy on the test images.
//
//   fashion_mnist [--epochs N] [--images N] [--data FOLDER] [--load WEIGHTS] [--save WEIGHTS]
//
// FOLDER holds the four files *-ubyte.gz; Debian's package dataset-fashion-mnist puts them in the default place.
// WEIGHTS: files of torch::save and torch::load.
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>

#include "arguments.h"
#include "classifier.h"

namespace {

constexpr std::int64_t kBatch = 16;
constexpr std::int64_t kTestBatch = 50;
constexpr std::int64_t kIterations = 25;  // batches per call: the loop over them runs on the device

double accuracy(const std::shared_ptr<ClassifierImpl>& net, const Data& data) {
  const auto classify = [net](const torch::Tensor& images) { return net->classify(images); };
  auto model = poptorch::inferenceModel(net, classify, poptorch::Options().deviceIterations(kIterations));
  constexpr std::int64_t rows = kIterations * kTestBatch;
  std::int64_t correct = 0;
  for (std::int64_t begin = 0; begin + rows <= data.labels.size(0); begin += rows) {
    const torch::Tensor guess = model(data.images.narrow(0, begin, rows)).argmax(1);
    correct += guess.eq(data.labels.narrow(0, begin, rows)).sum().item<std::int64_t>();
  }
  return static_cast<double>(correct) / static_cast<double>(data.labels.size(0));
}

void train(const std::shared_ptr<ClassifierImpl>& net, const Data& data, int epochs) {
  poptorch::optim::SGDOptions settings;
  settings.lr = 0.001;
  settings.momentum = 0.9;
  const poptorch::optim::SGD optimizer(net->parameters(), settings);
  const auto options = poptorch::Options().deviceIterations(kIterations).outputMode(poptorch::OutputMode::Sum);
  auto model = poptorch::trainingModel(net, options, optimizer);
  torch::manual_seed(7);
  constexpr std::int64_t rows = kIterations * kBatch;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const auto begin = std::chrono::steady_clock::now();
    const torch::Tensor order = torch::randperm(data.labels.size(0));
    double loss = 0;
    std::int64_t steps = 0;
    for (std::int64_t row = 0; row + rows <= order.size(0); row += rows) {
      const torch::Tensor chosen = order.narrow(0, row, rows);
      const auto [y, sum] = model(data.images.index_select(0, chosen), data.labels.index_select(0, chosen));
      loss += sum.item<double>();
      steps += kIterations;
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    std::printf("epoch %d: loss %.4f, %.0f images/s\n", epoch, loss / static_cast<double>(steps),
                static_cast<double>(steps * kBatch) / seconds.count());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto options = read_arguments(
        argc, argv,
        {{"--epochs", "5"}, {"--images", "60000"}, {"--data", kFashionMnist}, {"--load", ""}, {"--save", ""}});
    torch::manual_seed(42);
    auto net = std::make_shared<ClassifierImpl>();
    if (const std::string& file = options.at("--load"); !file.empty()) torch::load(net, file);
    const Data data = load_fashion_mnist(options.at("--data"), "train").first(std::stoll(options.at("--images")));
    train(net, data, std::stoi(options.at("--epochs")));
    net->eval();
    const Data tests = load_fashion_mnist(options.at("--data"), "t10k");
    std::printf("accuracy on the test images: %.2f%%\n", 100 * accuracy(net, tests));
    if (const std::string& file = options.at("--save"); !file.empty()) torch::save(net, file);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
