// Trace points from C++. Whether they are written is decided once in a process, so this one runs in a process of its
// own.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace {

struct Double : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) { return x * 2; }
};

std::string content_of(const std::filesystem::path& folder) {
  std::ostringstream text;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) text << std::ifstream(entry.path()).rdbuf();
  return text.str();
}

TEST(TracepointsDeathTest, AreWrittenIfTheEnvironmentAsksForThem) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // begins anew, not in the middle of this process
  const auto folder = std::filesystem::temp_directory_path() / "poptorch_trace_points_test";
  std::filesystem::remove_all(folder);
  EXPECT_EXIT(
      {
        setenv("PVTI_OPTIONS", ("{\"enable\": \"true\", \"directory\": \"" + folder.string() + "\"}").c_str(), 1);
        const poptorch::profiling::Channel channel("program");
        {
          const auto outer = channel.tracepoint("outer");
          poptorch::inferenceModel(std::make_shared<Double>())(torch::ones({2}));
        }
        _exit(poptorch::profiling::isTracing() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  const std::string text = content_of(folder);
  for (const char* part : {"\"name\": \"outer\", \"cat\": \"program\"", "\"name\": \"modelCompilation\"",
                           "\"name\": \"modelExecution\", \"cat\": \"poptorch.inferenceModel\""}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(poptorch::profiling::isTracing());
}

}  // namespace
