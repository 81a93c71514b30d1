// Times of the latest call, from C++.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include "error_of.h"

namespace {

using poptorch::tests::error_of;

struct Double : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) { return x * 2; }
};

TEST(PerfCounters, HaveOneNumberPerTransfer) {
  auto executor = poptorch::inferenceModel(std::make_shared<Double>(), poptorch::Options().deviceIterations(3));
  EXPECT_EQ(executor.getPerfCounters().input, poptorch::PerfCounters::Times(1));
  EXPECT_EQ(executor.getLatency().average, 0);
  executor(torch::ones({6, 2}));
  const poptorch::PerfCounters counters = executor.getPerfCounters();
  for (const auto* times : {&counters.input, &counters.input_complete, &counters.output, &counters.output_complete}) {
    ASSERT_EQ(times->size(), 1u);
    EXPECT_EQ(times->front().size(), 3u);
  }
  const poptorch::Latency whole = executor.getLatency();
  EXPECT_GT(whole.minimum, 0);
  EXPECT_LE(whole.minimum, whole.average);
  EXPECT_LE(whole.average, whole.maximum);
  EXPECT_NEAR(executor.getHostIpuLatency().average + executor.getComputeLatency().average +
                  executor.getIpuHostLatency().average,
              whole.average, 1e-9);
}

TEST(PerfCounters, CyclesMustBeAskedForAndNeedACall) {
  auto plain = poptorch::inferenceModel(std::make_shared<Double>());
  plain(torch::ones({2}));
  EXPECT_EQ(error_of([&] { plain.cycleCount(); }),
            "[cycleCount] cycles are not counted; set options.logCycleCount(true) before the model is wrapped.");
  auto executor = poptorch::inferenceModel(std::make_shared<Double>(), poptorch::Options().logCycleCount(true));
  EXPECT_EQ(error_of([&] { executor.cycleCount(); }), "[cycleCount] the model has not run yet; call it first.");
  executor(torch::ones({2}));
  EXPECT_GT(executor.cycleCount(), 0);
}

}  // namespace
