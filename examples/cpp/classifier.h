// The network and the data that the examples with pictures share.
#pragma once

#include <torch/torch.h>
#include <zlib.h>

#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

// Where Debian's package dataset-fashion-mnist puts it.
inline const std::string kFashionMnist = "/usr/share/datasets/fashion-mnist";

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

inline std::vector<unsigned char> read_gz(const std::string& path) {
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

  Data first(std::int64_t count) const { return {images.slice(0, 0, count), labels.slice(0, 0, count)}; }
};

// The idx format: a header of 16 bytes before the images, of 8 bytes before the labels.
inline Data load_fashion_mnist(const std::string& folder, const std::string& part) {
  auto images = read_gz(folder + "/" + part + "-images-idx3-ubyte.gz");
  auto labels = read_gz(folder + "/" + part + "-labels-idx1-ubyte.gz");
  const auto count = static_cast<std::int64_t>(labels.size()) - 8;
  return {torch::from_blob(images.data() + 16, {count, 1, 28, 28}, torch::kByte).to(torch::kFloat) / 127.5 - 1,
          torch::from_blob(labels.data() + 8, {count}, torch::kByte).to(torch::kLong)};
}
