// What others see of an executor: its IPUs, their memory, and how long each has computed.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "aspen/base/error.h"
#include "aspen/ipus/attachments.h"
#include "pipeline_program.h"
#include "tests/support/own_ipus.h"

namespace aspen::testing {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWork{3};

PipelineSpec working_spec() {
  return {.devices = {0, 1}, .training = false, .replicas = 2, .hook = [](const std::string& what, const StepContext&) {
            if (what == "forward 1") std::this_thread::sleep_for(kWork);
          }};
}

Attachment only_executor() {
  const auto attached = read_attachments();
  EXPECT_EQ(attached.executors.size(), 1);
  return attached.executors.at(0);
}

TEST(AttachedExecutor, ShowsAllIpusOfAllReplicas) {
  use_own_ipus();
  const Executor executor(pipeline_program(working_spec()));
  const Attachment seen = only_executor();
  ASSERT_EQ(seen.ipus.size(), 4);
  const auto memory = executor.memory();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(seen.ipus[i].ipu, static_cast<std::int64_t>(i));
    EXPECT_EQ(seen.ipus[i].memory, memory[i].planned);
    EXPECT_GT(seen.ipus[i].memory, 0);
    EXPECT_EQ(seen.ipus[i].busy, 0);
  }
}

TEST(AttachedExecutor, TellsHowLongItsDevicesCompute) {
  use_own_ipus();
  for (bool thread_per_device : {false, true}) {
    Executor executor(pipeline_program(working_spec()), {.thread_per_device = thread_per_device});
    constexpr std::int64_t kBatches = 5;
    const auto begin = std::chrono::steady_clock::now();
    run_all(executor, chain_inputs(kBatches * 2), kBatches);
    const auto took = std::chrono::steady_clock::now() - begin;
    const auto work = std::chrono::nanoseconds(kWork * kBatches).count();
    const Attachment seen = only_executor();
    for (std::size_t ipu : {1, 3}) {  // last stages
      EXPECT_GE(seen.ipus[ipu].busy, work);
      EXPECT_LE(seen.ipus[ipu].busy, std::chrono::nanoseconds(took).count());
      EXPECT_LT(seen.ipus[ipu - 1].busy, seen.ipus[ipu].busy);
      EXPECT_GT(seen.ipus[ipu - 1].busy, 0);
    }
    EXPECT_EQ(only_executor().ipus[1].busy, seen.ipus[1].busy) << "nothing runs any more";
  }
}

TEST(AttachedExecutor, RestsAfterAnError) {
  use_own_ipus();
  for (bool thread_per_device : {false, true}) {
    PipelineSpec spec{.devices = {0, 1}, .training = false};
    spec.hook = [](const std::string& what, const StepContext&) {
      if (what == "forward 1") throw DeviceError("injected");
    };
    Executor executor(pipeline_program(spec), {.thread_per_device = thread_per_device});
    EXPECT_THROW(run_all(executor, chain_inputs(1), 1), DeviceError);
    const auto busy = only_executor().ipus[1].busy;
    std::this_thread::sleep_for(milliseconds(2));
    EXPECT_EQ(only_executor().ipus[1].busy, busy);
  }
}

TEST(AttachedExecutor, ShowsWorkThatHasNotEnded) {
  use_own_ipus();
  PipelineSpec spec{.devices = {0}, .training = false};
  std::int64_t seen = 0;
  spec.hook = [&](const std::string&, const StepContext&) {
    std::this_thread::sleep_for(kWork);
    seen = only_executor().ipus[0].busy;
  };
  Executor executor(pipeline_program(spec));
  run_all(executor, chain_inputs(1), 1);
  EXPECT_GE(seen, std::chrono::nanoseconds(kWork).count());
}

}  // namespace
}  // namespace aspen::testing
