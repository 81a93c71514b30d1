// Trains a network and measures its accuracy after every epoch: two executors share the weights of one module, and
// nobody copies them. What was learnt is kept after every epoch; started again, the program goes on from there.
//
//   train_and_evaluate [--epochs N] [--images N] [--data FOLDER] [--checkpoint FOLDER]
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "arguments.h"
#include "classifier.h"

namespace {

constexpr std::int64_t kBatch = 16, kTestBatch = 50, kIterations = 25;

// Weights, state of the optimiser and the number of epochs, in a folder.
struct Checkpoint {
  std::filesystem::path folder;

  int epochs_done() const {
    int epochs = 0;
    std::ifstream(folder / "epochs") >> epochs;
    return epochs;
  }
  void load(std::shared_ptr<ClassifierImpl>& net, poptorch::optim::Optimizer& optimizer) const {
    torch::load(net, folder / "weights.pt");
    optimizer.loadStateDict(poptorch::optim::StateDict::load(folder / "optimizer.pt"));
  }
  void save(const std::shared_ptr<ClassifierImpl>& net, const poptorch::optim::Optimizer& optimizer, int epochs) const {
    std::filesystem::create_directories(folder);
    torch::save(net, folder / "weights.pt");
    optimizer.stateDict().save(folder / "optimizer.pt");
    std::ofstream(folder / "epochs") << epochs;
  }
};

void run(int epochs, const Data& data, const Data& tests, const std::string& folder) {
  torch::manual_seed(42);
  auto net = std::make_shared<ClassifierImpl>();
  poptorch::optim::AdamW optimizer(net->parameters(), {.lr = 1e-3});
  const Checkpoint checkpoint{folder};
  const int done = folder.empty() ? 0 : checkpoint.epochs_done();
  if (done > 0) checkpoint.load(net, optimizer);

  const auto options = poptorch::Options().deviceIterations(kIterations).outputMode(poptorch::OutputMode::Sum);
  auto trainer = poptorch::trainingModel(net, options, optimizer);
  const auto classify = [net](const torch::Tensor& images) { return net->classify(images); };
  auto classifier = poptorch::inferenceModel(net, classify, poptorch::Options().deviceIterations(kIterations));

  for (int epoch = done + 1; epoch <= epochs; ++epoch) {
    torch::manual_seed(epoch);
    constexpr std::int64_t rows = kIterations * kBatch, test_rows = kIterations * kTestBatch;
    const auto order = torch::randperm(data.labels.size(0));
    for (std::int64_t row = 0; row + rows <= order.size(0); row += rows) {
      const auto chosen = order.narrow(0, row, rows);
      trainer(data.images.index_select(0, chosen), data.labels.index_select(0, chosen));
    }
    std::int64_t correct = 0;
    for (std::int64_t row = 0; row + test_rows <= tests.labels.size(0); row += test_rows) {
      const auto guess = classifier(tests.images.narrow(0, row, test_rows)).argmax(1);
      correct += guess.eq(tests.labels.narrow(0, row, test_rows)).sum().item<std::int64_t>();
    }
    std::printf("epoch %d: %.2f%%\n", epoch, 100.0 * static_cast<double>(correct) / tests.labels.size(0));
    trainer.copyWeightsToHost();
    if (!folder.empty()) checkpoint.save(net, optimizer, epoch);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto options = read_arguments(
        argc, argv, {{"--epochs", "5"}, {"--images", "60000"}, {"--data", kFashionMnist}, {"--checkpoint", ""}});
    const Data data = load_fashion_mnist(options.at("--data"), "train").first(std::stoll(options.at("--images")));
    const Data tests = load_fashion_mnist(options.at("--data"), "t10k");
    run(std::stoi(options.at("--epochs")), data, tests, options.at("--checkpoint"));
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
