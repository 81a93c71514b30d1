// Names of models, as a C++ program sees them.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>

namespace poptorch::tests {
namespace {

TEST(ModelName, NamesTheGraphsThatAreWritten) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "named_graphs";
  std::filesystem::remove_all(folder);
  setenv("ASPEN_DUMP", folder.c_str(), 1);
  Options options;
  options.modelName("classifier");
  inferenceModel(std::make_shared<torch::nn::LinearImpl>(2, 2), options)(torch::ones({1, 2}));
  inferenceModel(std::make_shared<torch::nn::LinearImpl>(2, 2))(torch::ones({1, 2}));
  unsetenv("ASPEN_DUMP");
  EXPECT_TRUE(std::filesystem::exists(folder / "classifier.00.begin.ir"));
  EXPECT_TRUE(std::filesystem::exists(folder / "inference.00.begin.ir"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace poptorch::tests
