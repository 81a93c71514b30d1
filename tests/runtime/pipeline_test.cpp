// Pipelines on several devices: the same bits as a plain loop, whatever the number of stages, and really in parallel.
#include <gtest/gtest.h>

#include <numeric>

#include "pipeline_program.h"

namespace aspen::testing {
namespace {

std::vector<std::size_t> one_device_each(std::size_t stages) {
  std::vector<std::size_t> devices(stages);
  std::iota(devices.begin(), devices.end(), std::size_t{0});
  return devices;
}

void expect_equals_plain_loop(const PipelineSpec& spec, std::int64_t iterations, ExecutorOptions options) {
  Executor executor(pipeline_program(spec), options);
  PlainChain plain(spec);
  for (int call = 0; call < 3; ++call) {
    auto groups = static_cast<std::int64_t>(spec.input_grouping.num_groups(spec.replicas));
    V x = chain_inputs(iterations * spec.accumulation * groups, call);
    ASSERT_EQ(run_all(executor, x, iterations), plain.run(x, iterations)) << "call " << call;
    for (std::size_t s = 0; s < spec.devices.size(); ++s) {
      ASSERT_EQ(read(executor, "w" + std::to_string(s)), plain.weight(0, s)) << "stage " << s << ", call " << call;
    }
  }
  EXPECT_EQ(executor.step(), static_cast<std::uint64_t>(3 * iterations * spec.accumulation));
}

// Whichever threads run the devices.
void expect_equals_plain_loop(const PipelineSpec& spec, std::int64_t iterations) {
  expect_equals_plain_loop(spec, iterations, {});
  expect_equals_plain_loop(spec, iterations, {.num_threads = 1});
  expect_equals_plain_loop(spec, iterations, {.thread_per_device = true});
}

TEST(Pipeline, TrainsAsAPlainLoopDoes) {
  for (std::size_t stages : {1, 2, 4, 16}) {
    for (std::int64_t accumulation : {1, 2, 5, 33}) {
      SCOPED_TRACE(fmt::format("{} stages, accumulation {}", stages, accumulation));
      expect_equals_plain_loop({.devices = one_device_each(stages), .accumulation = accumulation}, 3);
    }
  }
}

TEST(Pipeline, InfersAsAPlainLoopDoes) {
  for (std::size_t stages : {1, 2, 4, 16}) {
    for (std::int64_t iterations : {1, 2, 40}) {
      SCOPED_TRACE(fmt::format("{} stages, {} iterations", stages, iterations));
      expect_equals_plain_loop({.devices = one_device_each(stages), .training = false}, iterations);
    }
  }
}

TEST(Pipeline, MayRevisitDevices) {
  for (const auto& devices : {std::vector<std::size_t>{0, 1, 0}, {0, 1, 2, 1, 0}, {2, 2, 0}, {0, 0, 0}}) {
    expect_equals_plain_loop({.devices = devices, .accumulation = 7}, 2);
    expect_equals_plain_loop({.devices = devices, .training = false}, 9);
  }
}

}  // namespace
}  // namespace aspen::testing
