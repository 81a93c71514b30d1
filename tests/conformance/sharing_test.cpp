// One kernel serves every instruction that asks for the same, in every replica: several threads run it at once, each
// with buffers and a workspace of its own. Every example of every op on every backend; what matters most is what the
// thread sanitizer says of it.
#include <gtest/gtest.h>

#include <thread>

#include "tests/conformance/cases.h"
#include "tests/support/backends.h"

namespace aspen::testing {
namespace {

constexpr std::size_t kThreads = 4;
constexpr int kRuns = 3;
constexpr StepContext kStep{.seed = 7, .step = 3, .replica = 1};

// What the kernel writes, run in memory of its own.
std::vector<HostTensor> run(const Kernel& kernel, const KernelRequest& request,
                            const std::vector<HostTensor>& tensors) {
  const std::vector<HostTensor> own = tensors;
  std::vector<const void*> inputs;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    inputs.push_back(request.inputs[i].present ? own[i].data() : nullptr);
  }
  std::vector<HostTensor> results;
  for (const TensorType& type : request.outputs) results.push_back(poisoned(type));
  std::vector<void*> outputs;
  for (HostTensor& result : results) outputs.push_back(result.data());
  AlignedBytes workspace(kernel.workspace_bytes());
  kernel.run({.inputs = inputs, .outputs = outputs, .workspace = workspace.data(), .step = &kStep});
  return results;
}

class SharedKernel : public ::testing::TestWithParam<Case> {};

TEST_P(SharedKernel, GivesEachThreadWhatItGivesOne) {
  std::vector<HostTensor> tensors = case_inputs(GetParam());
  CaseGraph graph(GetParam(), tensors);
  KernelRequest request = kernel_request(*graph.op);
  for (const auto& backend : built_backends()) {
    std::unique_ptr<Kernel> kernel = backend->create_kernel(request);
    kernel->reserve(kThreads);
    const std::vector<HostTensor> expected = run(*kernel, request, tensors);
    std::vector<int> num_different(kThreads, 0);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        for (int k = 0; k < kRuns; ++k) num_different[i] += run(*kernel, request, tensors) != expected;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(num_different, std::vector<int>(kThreads, 0)) << to_string(request) << " on " << backend->name();
  }
}

// Aliases have no kernels.
std::vector<Case> kernel_cases() {
  std::vector<Case> cases = all_cases();
  std::erase_if(cases, [](const Case& c) { return c.op->is_alias(); });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Examples, SharedKernel, ::testing::ValuesIn(kernel_cases()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace aspen::testing
