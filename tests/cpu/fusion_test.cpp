// Random networks train to the same bits with what runs several ops as one, and without it: each such pass switched off
// alone, and all of them. ASPEN_RANDOM_NETWORKS says how many networks; a few without it.
#include <gtest/gtest.h>

#include <cstdlib>

#include "aspen/compiler/ir/printer.h"
#include "tests/cpu/network_trainer.h"
#include "tests/cpu/random_network.h"

namespace aspen::testing {
namespace {

constexpr const char* kFusions[] = {"fuse_convolutions", "fuse_updates", "repeat_quick", "group_elementwise"};

class Fusion : public ::testing::TestWithParam<int> {
 protected:
  static int num_networks() {
    const char* asked = std::getenv("ASPEN_RANDOM_NETWORKS");
    return asked != nullptr ? std::atoi(asked) : 160;
  }

  static auto train(std::uint64_t seed, const std::vector<std::string>& skipped) {
    const Way way{.name = "", .configure = [&](CompileOptions& options) { options.skip_passes = skipped; }};
    return NetworkTrainer(random_network(seed), way, {.num_threads = 1}).train();
  }
};

TEST_P(Fusion, DoesNotChangeABit) {
  const std::vector<std::string> all(std::begin(kFusions), std::end(kFusions));
  for (int seed = GetParam(); seed < num_networks(); seed += 8) {
    const auto expected = train(seed, {});
    const std::string& one = all[static_cast<std::size_t>(seed) % all.size()];
    ASSERT_TRUE(train(seed, all) == expected) << "seed " << seed << "\n" << to_text(*random_network(seed));
    ASSERT_TRUE(train(seed, {one}) == expected) << one << ", seed " << seed << "\n" << to_text(*random_network(seed));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Fusion, ::testing::Range(0, 8));

}  // namespace
}  // namespace aspen::testing
