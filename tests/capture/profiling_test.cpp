// Profiles from C++: the same options, the same folder.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace {

namespace fs = std::filesystem;

struct Double : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) { return x * 2; }
};

std::string content_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

TEST(Profiling, LeavesAFolderWithWhatTheProgramDid) {
  const fs::path folder = fs::temp_directory_path() / "poptorch_profiling_test";
  fs::remove_all(folder);
  {
    auto model = poptorch::inferenceModel(std::make_shared<Double>(),
                                          poptorch::Options().enableProfiling(folder.string()).modelName("double"));
    const auto point = poptorch::profiling::Channel("program").tracepoint("never seen");  // nothing is profiled yet
    model(torch::ones({2}));
    EXPECT_TRUE(poptorch::profiling::isTracing());
    { const auto seen = poptorch::profiling::Channel("program").tracepoint("between calls"); }
    model(torch::ones({2}));
  }
  EXPECT_FALSE(poptorch::profiling::isTracing());
  const std::string text = content_of(folder / "double" / "profile.pop");
  EXPECT_EQ(text, content_of(folder / "double" / "profile.json"));
  for (const char* part : {R"("model":"double")", R"("complete":true)", "between calls", "modelCompilation"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(text.find("never seen"), std::string::npos);
  fs::remove_all(folder);
}

}  // namespace
