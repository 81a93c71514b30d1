// Trains a small convolutional network on Fashion-MNIST from C++ and prints its accuracy on the test images.
//
//   fashion_mnist [--epochs N] [--data FOLDER]
//
// FOLDER holds the four files *-ubyte.gz; Debian's package dataset-fashion-mnist puts them in the default place.
#include <poptorch/poptorch.h>
#include <torch/torch.h>
#include <zlib.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>

namespace {

constexpr std::int64_t kBatch = 16;
constexpr std::int64_t kTestBatch = 50;
constexpr std::int64_t kIterations = 25;  // batches per call: the loop over them runs on the device

// (B, 1, 28, 28) -> log probabilities (B, 10)
struct ClassifierImpl : torch::nn::Module {
  ClassifierImpl() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("norm", norm);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }

  torch::Tensor classify(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = norm(torch::relu(conv2(x))).flatten(1);
    return torch::log_softmax(fc2(torch::relu(fc1(x))), 1);
  }

  // For training: the loss is part of the model.
  std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor images, torch::Tensor labels) {
    const torch::Tensor y = classify(images);
    return {y, torch::nll_loss(y, labels)};
  }

  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 5, 3)};
  torch::nn::Conv2d conv2{torch::nn::Conv2dOptions(5, 12, 5)};
  torch::nn::GroupNorm norm{torch::nn::GroupNormOptions(3, 12)};
  torch::nn::Linear fc1{972, 100};
  torch::nn::Linear fc2{100, 10};
};

std::vector<unsigned char> read_gz(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error("cannot read " + path + "; is dataset-fashion-mnist installed?");
  std::vector<unsigned char> bytes;
  unsigned char block[1 << 16];
  for (int count = gzread(file, block, sizeof block); count > 0; count = gzread(file, block, sizeof block)) {
    bytes.insert(bytes.end(), block, block + count);
  }
  gzclose(file);
  return bytes;
}

struct Data {
  torch::Tensor images;  // (N, 1, 28, 28), in [-1, 1]
  torch::Tensor labels;  // (N)
};

// The idx format: a header of 16 bytes before the images, of 8 bytes before the labels.
Data load(const std::string& folder, const std::string& part) {
  auto images = read_gz(folder + "/" + part + "-images-idx3-ubyte.gz");
  auto labels = read_gz(folder + "/" + part + "-labels-idx1-ubyte.gz");
  const auto count = static_cast<std::int64_t>(labels.size()) - 8;
  return {torch::from_blob(images.data() + 16, {count, 1, 28, 28}, torch::kByte).to(torch::kFloat) / 127.5 - 1,
          torch::from_blob(labels.data() + 8, {count}, torch::kByte).to(torch::kLong)};
}

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
  int epochs = 5;
  std::string folder = "/usr/share/datasets/fashion-mnist";
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--epochs")
      epochs = std::stoi(argv[i + 1]);
    else if (option == "--data")
      folder = argv[i + 1];
    else
      return std::fprintf(stderr, "usage: fashion_mnist [--epochs N] [--data FOLDER]\n"), 2;
  }
  try {
    torch::manual_seed(42);
    auto net = std::make_shared<ClassifierImpl>();
    train(net, load(folder, "train"), epochs);
    net->eval();
    std::printf("accuracy on the test images: %.2f%%\n", 100 * accuracy(net, load(folder, "t10k")));
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
