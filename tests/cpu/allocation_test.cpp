// Nothing is allocated while a program runs: counted over a whole call of captured networks, the second one.
#include <gtest/gtest.h>

#include <thread>

#include "aspen/runtime/run_recorder.h"
#include "tests/cpu/allocation_count.h"
#include "tests/cpu/network_trainer.h"

namespace aspen::testing {
namespace {

TEST(AllocationCount, SeesOtherThreads) {
  if (!counts_allocations()) GTEST_SKIP() << "the sanitizer has an allocator of its own";
  long before = 0, after = 0;
  std::vector<int> kept;
  std::thread([&] {
    before = num_allocations();
    kept.resize(1000);
    after = num_allocations();
  }).join();
  EXPECT_EQ(after, before + 1);
}

std::vector<Way> ways_with_replicas() {
  std::vector<Way> all = ways();
  all.push_back({.name = "one device", .stages_per_device = 4});
  all.push_back({"in two replicas", 4, [](CompileOptions& options) { options.replicas = 2; }});
  all.push_back({"in two replicas of two devices", 2, [](CompileOptions& options) { options.replicas = 2; }});
  all.push_back({"with sharded optimiser state", 4, [](CompileOptions& options) {
                   options.replicas = 2;
                   options.locations.optimizer_state.sharded = true;
                   options.locations.optimizer_state.min_shard_elements = 2;
                 }});
  return all;
}

class Allocations : public ::testing::TestWithParam<const char*> {};

TEST_P(Allocations, AreNoneWhileAProgramRuns) {
  if (!counts_allocations()) GTEST_SKIP() << "the sanitizer has an allocator of its own";
  for (const Way& way : ways_with_replicas()) {
    for (bool thread_per_device : {false, true}) {
      auto recorder = thread_per_device ? std::make_shared<RunRecorder>() : nullptr;
      NetworkTrainer trainer(GetParam(), way,
                             {.num_threads = 2, .thread_per_device = thread_per_device, .recorder = recorder});
      trainer.run();
      long before = num_allocations();
      trainer.run();
      EXPECT_EQ(num_allocations() - before, 0)
          << way.name << (thread_per_device ? ", a thread per device, recorded" : "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Captured, Allocations, ::testing::ValuesIn(kNetworks),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace aspen::testing
