// Steps per second of training the tutorial's CNN (batch 16) on one thread, its images read by poptorch::DataLoader,
// beside the same items held ready in memory. `./dev bench data_loader`
//
// All sides take turns in one process and the best turn of each counts, so that a busy machine slows them alike.
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

namespace {

constexpr std::int64_t kBatch = 16, kIterations = 20, kImages = 9600;
constexpr int kTurns = 7;
constexpr double kSecondsPerTurn = 0.5;

struct TutorialCnn : torch::nn::Module {
  TutorialCnn() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("norm", norm);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, torch::Tensor labels) {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = norm(torch::relu(conv2(x))).flatten(1);
    x = torch::log_softmax(fc2(torch::relu(fc1(x))), 1);
    return {x, torch::nll_loss(x, labels)};
  }
  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 5, 3)};
  torch::nn::Conv2d conv2{torch::nn::Conv2dOptions(5, 12, 5)};
  torch::nn::GroupNorm norm{torch::nn::GroupNormOptions(3, 12)};
  torch::nn::Linear fc1{972, 100};
  torch::nn::Linear fc2{100, 10};
};

// Images as they lie in a file, made floats in [-1, 1] when they are asked for.
struct Images {
  torch::Tensor pixels = torch::randint(0, 256, {kImages, 1, 28, 28}, torch::kByte);
  torch::Tensor labels = torch::randint(0, 10, {kImages});
  std::size_t size() const { return kImages; }
  std::pair<torch::Tensor, torch::Tensor> get(std::size_t index) const {
    const auto i = static_cast<std::int64_t>(index);
    return {pixels[i].to(torch::kFloat).div_(127.5).sub_(1), labels[i]};
  }
};

using Item = poptorch::DataLoader::Item;

// Steps per second of one turn. `next` gives the items, one after the other.
double rate(poptorch::PoplarExecutor<TutorialCnn>& model, const std::function<const Item&()>& next) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t steps = kIterations;; steps += kIterations) {
    model.run(next());
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (elapsed.count() > kSecondsPerTurn) return static_cast<double>(steps) / elapsed.count();
  }
}

// Epoch after epoch.
class Endless {
 public:
  explicit Endless(poptorch::DataLoader loader) : loader_(std::move(loader)) {}
  const Item& operator()() {
    if (current_ != loader_.end()) ++current_;
    if (current_ == loader_.end()) current_ = loader_.begin();
    return *current_;
  }

 private:
  poptorch::DataLoader loader_;
  poptorch::DataLoader::Iterator current_;
};

}  // namespace

int main() {
  setenv("ASPEN_NUM_THREADS", "1", /*overwrite=*/1);
  torch::set_num_threads(1);
  torch::manual_seed(0);
  const auto options = poptorch::Options().deviceIterations(kIterations);
  auto network = std::make_shared<TutorialCnn>();
  poptorch::optim::SGDOptions sgd;
  sgd.lr = 0.001;
  sgd.momentum = 0.9;
  auto model = poptorch::trainingModel(network, options, poptorch::optim::SGD(network->parameters(), sgd));
  const Images images;

  poptorch::DataLoaderOptions settings;
  settings.batch_size = kBatch;
  settings.shuffle = true;
  std::vector<Item> ready;
  poptorch::DataLoader once(options, images, settings);
  for (const auto& item : once) ready.push_back(item);
  std::size_t position = 0;
  const auto from_memory = [&]() -> const Item& { return ready[position++ % ready.size()]; };

  Endless own_thread(poptorch::DataLoader(options, images, settings));
  settings.num_workers = 2;
  settings.mode = poptorch::DataLoaderMode::Async;
  Endless workers(poptorch::DataLoader(options, images, settings));

  model.run(from_memory());
  double best_memory = 0, best_own = 0, best_workers = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    best_memory = std::max(best_memory, rate(model, from_memory));
    best_own = std::max(best_own, rate(model, std::ref(own_thread)));
    best_workers = std::max(best_workers, rate(model, std::ref(workers)));
  }
  std::printf("tutorial CNN, batch %d, deviceIterations(%d), one thread, best of %d turns\n", static_cast<int>(kBatch),
              static_cast<int>(kIterations), kTurns);
  std::printf("%-44s%8.0f st/s\n", "items held ready in memory", best_memory);
  std::printf("%-44s%8.0f st/s%8.2f\n", "DataLoader, read by the model's thread", best_own, best_own / best_memory);
  std::printf("%-44s%8.0f st/s%8.2f\n", "DataLoader, Async, 2 workers", best_workers, best_workers / best_memory);
  return 0;
}
