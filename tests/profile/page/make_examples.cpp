// make_examples FOLDER: writes the runs that the tests of the page look at, one folder each.
#include <fmt/format.h>

#include <filesystem>

#include "aspen/base/error.h"
#include "aspen/profile/report.h"
#include "tests/profile/example_profile.h"

namespace aspen::testing {
namespace {

void write_examples(const std::filesystem::path& folder) {
  const ExampleModel pipeline{.budget = 160 << 20};
  const ExampleModel replicas{.name = "replicas",
                              .devices = 2,
                              .replicas = 2,
                              .gradient_accumulation = 4,
                              .device_iterations = 2,
                              .slow_device = -1,
                              .loading = 0.4,
                              .calls_host = true,
                              .offloads = true,
                              .devices_per_crew = 2};
  const ExampleModel single{.name = "inference",
                            .training = false,
                            .devices = 1,
                            .gradient_accumulation = 1,
                            .device_iterations = 4,
                            .slow_device = -1,
                            .complete = false};
  // 10,000 ops: 48 layers a device, 20 ops a layer there and back and 4 updates.
  const ExampleModel large{.name = "large", .layers_per_device = 105, .gradient_accumulation = 100, .calls = 2};
  for (const auto& [name, model] :
       {std::pair{"pipeline", pipeline}, {"replicas", replicas}, {"single", single}, {"large", large}}) {
    profile::Profile profile = example_profile(model);
    // Options are the user's words: they must stay words on the page.
    profile.run.options.push_back({"modelName", "</script><script>escaped = 1</script>"});
    profile::write_run(folder / name, profile);
    fmt::print("{}: {} ops, {} blocks\n", name, profile.ops.size(), profile.trace.blocks.size());
  }
  ExampleModel faster = pipeline;
  faster.slow_factor = 1.1;
  faster.layers_per_device = 4;
  profile::Profile before = example_profile(pipeline), after = example_profile(faster);
  profile::finish(before);
  profile::finish(after);
  std::filesystem::create_directories(folder / "compare");
  const profile::Comparison comparison = profile::compare(before, after);
  profile::write_page(folder / "compare" / "report.html", after, &comparison);
}

}  // namespace
}  // namespace aspen::testing

int main(int count, char** words) {
  try {
    if (count != 2) throw aspen::UserError("usage: make_examples FOLDER");
    aspen::testing::write_examples(words[1]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
