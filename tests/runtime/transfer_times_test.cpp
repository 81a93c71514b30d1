// Time stamps of transfers: how many there are for each mode, their order, what happens to them when a run fails.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "aspen/base/error.h"
#include "pipeline_program.h"

namespace aspen::testing {
namespace {

void sleep_for(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

TransferTimes times_of(Executor& executor, std::int64_t iterations, HostOutput output) {
  const Program& program = executor.program();
  const auto groups = static_cast<std::int64_t>(program.input_grouping.num_groups(program.replicas));
  const std::int64_t accumulation = program.gradient_accumulation;
  V x = chain_inputs(iterations * accumulation * groups);
  V y(static_cast<std::size_t>(iterations * accumulation) * program.replicas * kWidth);
  output.data = y.data();
  executor.run({.device_iterations = iterations,
                .gradient_accumulation = accumulation,
                .inputs = {x.data()},
                .outputs = {output}});
  return executor.transfers();
}

void expect_ordered(const TransferTimes::Tensor& tensor, std::size_t count) {
  ASSERT_EQ(tensor.begin.size(), count);
  ASSERT_EQ(tensor.end.size(), count);
  for (std::size_t i = 0; i < count; ++i) EXPECT_LE(tensor.begin[i], tensor.end[i]) << i;
}

TEST(TransferTimes, CountWhatEachModeReturns) {
  for (bool thread_per_device : {false, true}) {
    Executor executor(pipeline_program({.devices = {0, 1}, .accumulation = 4, .replicas = 2}),
                      {.num_threads = 2, .thread_per_device = thread_per_device});
    EXPECT_FALSE(executor.transfers().has_run);
    const std::vector<std::pair<HostOutput, std::size_t>> modes{{{.mode = OutputMode::kAll}, 32},
                                                                {{.mode = OutputMode::kEveryN, .period = 2}, 16},
                                                                {{.mode = OutputMode::kFinal}, 2},
                                                                {{.mode = OutputMode::kSum}, 2}};
    for (const auto& [output, count] : modes) {
      const TransferTimes times = times_of(executor, 4, output);
      ASSERT_TRUE(times.has_run);
      ASSERT_EQ(times.inputs.size(), 1u);
      ASSERT_EQ(times.outputs.size(), 1u);
      expect_ordered(times.inputs[0], 32);
      expect_ordered(times.outputs[0], count);
      EXPECT_LT(times.inputs[0].begin[0], times.outputs[0].end[count - 1]);
    }
  }
}

TEST(TransferTimes, AreThoseOfTheMicroBatch) {
  PipelineSpec spec{.devices = {0}, .training = false};
  spec.hook = [](const std::string&, const StepContext&) { sleep_for(5); };
  Executor executor(pipeline_program(spec));
  const TransferTimes times = times_of(executor, 3, {.mode = OutputMode::kAll});
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_GE(times.outputs[0].begin[i] - times.inputs[0].end[i], 0.005) << i;
    if (i == 0) continue;
    EXPECT_GE(times.inputs[0].begin[i], times.outputs[0].end[i - 1]) << i;
  }
  EXPECT_GE(times.computing, 0.015);
  EXPECT_LE(times.computing, times.outputs[0].end[2] - times.inputs[0].begin[0] + 0.005);
}

TEST(TransferTimes, OfAnInputThatNobodyReadsAreThere) {
  auto program = pipeline_program({.devices = {0}, .training = false});
  program->inputs.push_back({"unread", tensor_type()});
  Executor executor(program);
  V x = chain_inputs(2), y(2 * kWidth);
  executor.run({.device_iterations = 2, .inputs = {x.data(), x.data()}, .outputs = {{.data = y.data()}}});
  const TransferTimes times = executor.transfers();
  ASSERT_EQ(times.inputs.size(), 2u);
  expect_ordered(times.inputs[1], 2);
}

TEST(TransferTimes, OfARunThatFailsAreNone) {
  bool fails = false;
  PipelineSpec spec{.devices = {0}, .training = false};
  spec.hook = [&](const std::string&, const StepContext&) {
    if (fails) throw UserError("no.");
  };
  Executor executor(pipeline_program(spec));
  EXPECT_TRUE(times_of(executor, 1, {}).has_run);
  fails = true;
  EXPECT_THROW(times_of(executor, 1, {}), UserError);
  EXPECT_FALSE(executor.transfers().has_run);
}

}  // namespace
}  // namespace aspen::testing
