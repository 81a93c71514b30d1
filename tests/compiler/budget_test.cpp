// Memory budgets: what a program takes is told, what is over a budget is refused with the table, and an automatic
// budget is kept without a change of any bit.
#include <gtest/gtest.h>

#include <numeric>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/compiler/compile.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/ir/clone_graph.h"
#include "aspen/compiler/ir/printer.h"
#include "aspen/ops/build.h"
#include "aspen/ops/random/random.h"
#include "aspen/runtime/executor.h"
#include "aspen/runtime/footprint.h"

namespace aspen::testing {
namespace {

constexpr std::int64_t kWidth = 32;
constexpr int kLayers = 12;
constexpr std::size_t kTensor = kWidth * kWidth * sizeof(float);

const Backend& backend() {
  static const auto reference = make_reference_backend();
  return *reference;
}

// kLayers times h = tanh(h w) * noise.
std::unique_ptr<Graph> deep_network(std::int64_t num_devices = 1) {
  auto graph = std::make_unique<Graph>("net");
  Builder b(*graph);
  const TensorType type{DType::kF32, {kWidth, kWidth}};
  Value* h = graph->add_input("x", type);
  for (int i = 0; i < kLayers; ++i) {
    b.placement.device = b.placement.stage = i * num_devices / kLayers;
    b.location = {.scope = fmt::format("layer{}", i), .source = "net.py:7"};
    Variable* w = graph->add_variable(fmt::format("layer{}.w", i), VariableKind::kParameter, type, true);
    h = build::unary(b, "tanh", build::dot(b, h, w->value.get()));
    h = build::mul(b, h, b.make("random_uniform", {}, RandomAttrs{type.dtype, type.shape, i}));
  }
  graph->add_output("loss", b.make("loss", {build::reduce_all(b, "reduce_sum", h)}));
  return graph;
}

CompileOptions training(MemoryBudget budget = {}, std::int64_t num_devices = 1) {
  CompileOptions options{.training = true, .gradient_accumulation = 2 * num_devices - 1};
  options.optimizer.kind = "adam";
  options.memory_budget = std::move(budget);
  options.optimizer.groups.emplace_back();
  for (int i = 0; i < kLayers; ++i) options.optimizer.groups[0].parameters.push_back(fmt::format("layer{}.w", i));
  return options;
}

std::vector<DeviceFootprint> footprint(const CompileOptions& options, std::int64_t num_devices = 1) {
  auto graph = deep_network(num_devices);
  return footprint_of(*compile(*graph, options, backend()));
}

std::string refusal(const CompileOptions& options, std::int64_t num_devices = 1) {
  try {
    footprint(options, num_devices);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// All weights after a few updates, as the host sees them.
std::vector<std::vector<std::byte>> trained(const CompileOptions& options, std::int64_t num_devices = 1) {
  auto graph = deep_network(num_devices);
  std::shared_ptr<const Program> program = compile(*graph, options, backend());
  Executor executor(program, ExecutorOptions{.thread_per_device = true});
  for (const ProgramVariable& variable : program->variables) {
    std::vector<float> values(static_cast<std::size_t>(variable.type.numel()));
    const bool is_setting = variable.kind == VariableKind::kSetting;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = is_setting ? 0.5f : static_cast<float>((i * 7919 + 13) % 97) / 485 - 0.1f;
    }
    if (is_setting || variable.kind == VariableKind::kParameter)
      executor.write_variable(variable.name, std::as_bytes(std::span(values)));
  }
  std::vector<float> x(static_cast<std::size_t>(options.gradient_accumulation * kWidth * kWidth));
  std::iota(x.begin(), x.end(), 0.0f);
  for (float& number : x) number = number / static_cast<float>(x.size());
  float loss = 0;
  for (int update = 0; update < 3; ++update) {
    executor.run({.gradient_accumulation = options.gradient_accumulation,
                  .inputs = {x.data()},
                  .outputs = {{.data = &loss, .mode = OutputMode::kFinal}}});
  }
  std::vector<std::vector<std::byte>> result;
  for (const ProgramVariable& variable : program->variables) {
    if (variable.kind != VariableKind::kParameter) continue;
    result.emplace_back(variable.type.bytes());
    executor.read_variable(variable.name, result.back());
  }
  return result;
}

TEST(Footprint, AddsUpToThePlan) {
  for (std::int64_t num_devices : {1, 3}) {
    auto graph = deep_network(num_devices);
    const auto program = compile(*graph, training({}, num_devices), backend());
    const std::vector<DeviceFootprint> devices = footprint_of(*program);
    ASSERT_EQ(devices.size(), static_cast<std::size_t>(num_devices));
    for (std::size_t i = 0; i < devices.size(); ++i) EXPECT_EQ(devices[i].total(), planned_bytes(*program, i));
  }
}

TEST(Footprint, TellsKindsAndNamesOfBuffers) {
  const DeviceFootprint device = footprint(training())[0];
  EXPECT_EQ(device.of(MemoryKind::kWeights), kLayers * kTensor);
  EXPECT_GE(device.of(MemoryKind::kOptimizerState), 2 * kLayers * kTensor);
  EXPECT_GE(device.of(MemoryKind::kActivations), 2 * kLayers * kTensor);  // of tanh and the noise
  EXPECT_EQ(device.of(MemoryKind::kStashes), 0u);
  EXPECT_TRUE(std::is_sorted(device.buffers.begin(), device.buffers.end(),
                             [](const HeldBuffer& a, const HeldBuffer& b) { return a.bytes > b.bytes; }));
  const auto has = [&](MemoryKind kind, const std::string& name) {
    return std::any_of(device.buffers.begin(), device.buffers.end(), [&](const HeldBuffer& buffer) {
      return buffer.kind == kind && buffer.name == name && buffer.type == "f32[32, 32]" && buffer.bytes == kTensor;
    });
  };
  EXPECT_TRUE(has(MemoryKind::kWeights, "layer3.w"));
  EXPECT_TRUE(has(MemoryKind::kOptimizerState, "Accl1___layer3.w"));
  EXPECT_TRUE(has(MemoryKind::kActivations, "random_uniform, layer3 (net.py:7)"));
}

TEST(Footprint, OfAPipelineHasStashes) {
  const std::vector<DeviceFootprint> devices = footprint(training({}, 3), 3);
  EXPECT_GT(devices[0].of(MemoryKind::kStashes), 0u);
  EXPECT_EQ(devices[0].of(MemoryKind::kWeights), kLayers / 3 * kTensor);
  EXPECT_GT(devices[0].of(MemoryKind::kAccumulators), 0u);
}

TEST(Budget, WhatFitsIsCompiledAsItIs) {
  const std::size_t needed = footprint(training())[0].total();
  const DeviceFootprint device = footprint(training({.bytes = needed}))[0];
  EXPECT_EQ(device.total(), needed);
  EXPECT_EQ(device.budget_bytes, needed);
}

TEST(Budget, WhatDoesNotFitIsRefusedWithATableAndAdvice) {
  const std::size_t needed = footprint(training())[0].total();
  const std::string text = refusal(training({.bytes = needed - 1}));
  for (const char* part :
       {"[memory budget] net does not fit: 0.", " on IPU 0.", "optimiser state", "activations at the peak",
        "largest on IPU 0:", "layer0.w", "optimiser state off the device saves 0.09 MiB on IPU 0 (fits)",
        "the forward pass computed again in parts saves"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Budget, AdviceIsSpelledByWhoAsks) {
  MemoryBudget budget{.bytes = 1 << 10};
  budget.spelled = [](Remedy remedy) { return fmt::format("remedy_{}()", static_cast<int>(remedy)); };
  EXPECT_NE(refusal(training(budget)).find("remedy_0()"), std::string::npos);
}

TEST(Budget, IsThatOfTheDeviceItNames) {
  const std::vector<DeviceFootprint> devices = footprint(training({}, 3), 3);
  MemoryBudget budget{.of_device = {{1, devices[1].total() - 1}}};
  const std::string text = refusal(training(budget, 3), 3);
  EXPECT_NE(text.find("on IPU 1."), std::string::npos) << text;
  EXPECT_EQ(text.find("largest on IPU 0"), std::string::npos);
  budget.of_device[1] = devices[1].total();
  EXPECT_EQ(refusal(training(budget, 3), 3), "");
}

TEST(AutomaticBudget, FitsWithoutAChangeOfAnyBit) {
  for (std::int64_t num_devices : {1, 3}) {
    const auto expected = trained(training({}, num_devices), num_devices);
    std::size_t needed = 0;
    for (const auto& device : footprint(training({}, num_devices), num_devices))
      needed = std::max(needed, device.total());
    for (double part : {0.95, 0.7, 0.5}) {
      const MemoryBudget budget{.bytes = static_cast<std::size_t>(part * static_cast<double>(needed)),
                                .automatic = true};
      for (const DeviceFootprint& device : footprint(training(budget, num_devices), num_devices)) {
        EXPECT_LE(device.total(), budget.bytes);
      }
      EXPECT_EQ(trained(training(budget, num_devices), num_devices), expected) << num_devices << " " << part;
    }
  }
}

TEST(AutomaticBudget, MovesNothingThatNeedNotMove) {
  const std::size_t needed = footprint(training())[0].total();
  EXPECT_EQ(footprint(training({.bytes = needed, .automatic = true}))[0].off_device_bytes, 0u);
  const DeviceFootprint squeezed = footprint(training({.bytes = needed - 1, .automatic = true}))[0];
  EXPECT_GE(squeezed.off_device_bytes, 2 * kLayers * kTensor);  // the state of the optimiser
  EXPECT_EQ(squeezed.of(MemoryKind::kWeights), kLayers * kTensor);
}

TEST(AutomaticBudget, ThatCannotBeKeptIsRefused) {
  const std::string text = refusal(training({.bytes = 8 << 10, .automatic = true}));
  EXPECT_NE(text.find("does not fit, whatever is moved off the devices or computed again"), std::string::npos) << text;
}

TEST(RecomputeInParts, NeedsLessThanKeepingAllOrRepeatingAll) {
  const auto peak = [](Recompute recompute) {
    CompileOptions options = training();
    options.recompute = recompute;
    const DeviceFootprint device = footprint(options)[0];
    return device.of(MemoryKind::kActivations) + device.of(MemoryKind::kScratch);
  };
  EXPECT_LT(peak(Recompute::kParts), peak(Recompute::kNothing) * 2 / 3);
  EXPECT_LT(peak(Recompute::kParts), peak(Recompute::kAll) * 2 / 3);
}

TEST(CloneGraph, SaysTheSame) {
  auto graph = deep_network(3);
  graph->overlap_input(0);
  EXPECT_EQ(to_text(*clone_graph(*graph)), to_text(*graph));
}

}  // namespace
}  // namespace aspen::testing
