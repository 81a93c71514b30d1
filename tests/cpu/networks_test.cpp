// Captured networks on the cpu backend: whatever way of using devices and threads, the weights are bit for bit those of
// one device. tests/models/test_many_devices.py trains the same networks from Python. This one runs under the thread
// sanitizer as well.
#include <gtest/gtest.h>

#include "tests/cpu/network_trainer.h"

namespace aspen::testing {
namespace {

class Networks : public ::testing::TestWithParam<const char*> {};

TEST_P(Networks, TrainToTheSameBitsInEveryWay) {
  auto train = [](const Way& way, ExecutorOptions options) { return NetworkTrainer(GetParam(), way, options).train(); };
  Way alone{.name = "one device", .stages_per_device = 4};
  auto expected = train(alone, {.num_threads = 1});
  EXPECT_TRUE(train(alone, {.num_threads = 2}) == expected) << "two threads";
  for (const Way& way : ways()) {
    EXPECT_TRUE(train(way, {.num_threads = 2}) == expected) << way.name;
    EXPECT_TRUE(train(way, {.num_threads = 2, .thread_per_device = true}) == expected)
        << way.name << ", a thread per device";
  }
}

INSTANTIATE_TEST_SUITE_P(Captured, Networks, ::testing::ValuesIn(kNetworks),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace aspen::testing
