// Trains on a data set of one's own, which threads read while the model runs.
//
//   own_dataset [--epochs N] [--seed N] [--workers N] [--mode sync|async|rebatched] [--shuffle yes|no]
//               [--drop-last yes|no] [--process I/N] [--load FILE] [--save FILE] [--items FILE]
//
// With --process the program reads the share of one of several processes. With --load it starts from the weights in
// FILE, with --save it leaves the trained ones there; with --items the items it was trained on, for torch.load: a list
// of [x, y].
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <string>

#include "arguments.h"

namespace {

// Points of a plane, y = 3a - 2b + 1, made when they are asked for as others would read a file.
class Plane {
 public:
  explicit Plane(std::int64_t size) : size_(size) {}
  std::size_t size() const { return static_cast<std::size_t>(size_); }

  // Called by several threads at once: it changes nothing.
  std::pair<torch::Tensor, torch::Tensor> get(std::size_t index) const {
    const auto i = static_cast<std::int64_t>(index);
    const torch::Tensor x = torch::tensor({i, i * i % 97}, torch::kFloat) / torch::tensor({float(size_), 97.0f});
    return {x, 3 * x.narrow(0, 0, 1) - 2 * x.narrow(0, 1, 1) + 1};
  }

 private:
  std::int64_t size_;
};

struct Regression : torch::nn::Module {
  Regression() { register_module("linear", linear); }
  // The loss is part of the model.
  std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, torch::Tensor y) {
    const torch::Tensor guess = linear(x);
    return {guess, torch::mse_loss(guess, y)};
  }
  torch::nn::Linear linear{2, 1};
};

void run(std::map<std::string, std::string>& arguments) {
  poptorch::Options options;
  options.deviceIterations(4);  // batches per call
  if (const std::string& process = arguments["--process"]; !process.empty()) {
    options.Distributed.configureProcessId(std::stoll(process), std::stoll(process.substr(process.find('/') + 1)));
  }
  const std::map<std::string, poptorch::DataLoaderMode> modes = {
      {"sync", poptorch::DataLoaderMode::Sync},
      {"async", poptorch::DataLoaderMode::Async},
      {"rebatched", poptorch::DataLoaderMode::AsyncRebatched}};
  poptorch::DataLoaderOptions settings;
  settings.batch_size = 5;
  settings.shuffle = arguments["--shuffle"] == "yes";
  settings.drop_last = arguments["--drop-last"] == "yes";
  settings.num_workers = std::stoll(arguments["--workers"]);
  settings.mode = modes.at(arguments["--mode"]);

  auto model = std::make_shared<Regression>();
  if (const std::string& file = arguments["--load"]; !file.empty()) torch::load(model, file);
  const std::uint64_t seed = std::stoull(arguments["--seed"]);
  options.randomSeed(seed);
  torch::manual_seed(seed);
  poptorch::DataLoader loader(options, Plane(333), settings);
  auto alone = options;  // each process trains a model of its own
  alone.Distributed.disable();
  auto trainer = poptorch::trainingModel(model, alone, poptorch::optim::SGD(model->parameters(), {/*lr=*/0.1}));

  c10::List<c10::List<at::Tensor>> items;
  for (int epoch = 1; epoch <= std::stoi(arguments["--epochs"]); ++epoch) {
    double loss = 0;
    for (const auto& item : loader) {
      items.push_back(c10::List<at::Tensor>({item[0].clone(), item[1].clone()}));
      if (item[0].size(0) < loader.combinedBatchSize()) continue;  // the model is compiled for full items
      loss = trainer.run(item)[1].mean().item<double>();
    }
    std::printf("epoch %d: %lld items, loss %.6f\n", epoch, static_cast<long long>(loader.size()), loss);
  }
  trainer.copyWeightsToHost();
  if (const std::string& file = arguments["--save"]; !file.empty()) torch::save(model, file);
  if (const std::string& file = arguments["--items"]; !file.empty()) {
    const std::vector<char> bytes = torch::pickle_save(items);
    std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    auto arguments = read_arguments(argc, argv,
                                    {{"--epochs", "20"},
                                     {"--seed", "1"},
                                     {"--workers", "2"},
                                     {"--mode", "async"},
                                     {"--shuffle", "yes"},
                                     {"--drop-last", "yes"},
                                     {"--process", ""},
                                     {"--load", ""},
                                     {"--save", ""},
                                     {"--items", ""}});
    run(arguments);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
