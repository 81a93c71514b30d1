// Memory as planned and as measured, on the device and off it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "aspen/runtime/arena_memory.h"
#include "pipeline_program.h"

namespace aspen::testing {
namespace {

TEST(Memory, MeasuredEqualsPlannedWhenEverySlotIsUsed) {
  PipelineSpec spec{.devices = {0, 1, 2, 1}, .accumulation = 8, .replicas = 2};
  Executor executor(pipeline_program(spec), {.measures_memory = true});
  V x = chain_inputs(16);
  EXPECT_EQ(run_all(executor, x, 1), PlainChain(spec).run(x, 1));  // painting changes no result
  std::vector<DeviceMemory> memory = executor.memory();
  ASSERT_EQ(memory.size(), 6u);
  for (const DeviceMemory& entry : memory) {
    EXPECT_GT(entry.planned, 0u);
    EXPECT_EQ(entry.measured, entry.planned) << "device " << entry.device;
    EXPECT_EQ(entry.planned_host, 0u);
    EXPECT_EQ(entry.measured_host, 0u);
  }
}

TEST(Memory, CountsOnlyWhatWasTouched) {
  PipelineSpec spec{.devices = {0, 1}, .accumulation = 1};
  Executor executor(pipeline_program(spec), {.measures_memory = true});
  // Loaded: weight, accumulator and, where the gradient starts, a constant.
  EXPECT_EQ(executor.memory()[0].measured, 2 * kSpace);
  EXPECT_EQ(executor.memory()[1].measured, 3 * kSpace);
  // Per device one slot of lanes that are 3 and 2 deep.
  run_all(executor, chain_inputs(1), 1);
  EXPECT_EQ(executor.memory()[0].measured, 2 * kSpace + 2 * kSpace);
  EXPECT_EQ(executor.memory()[0].planned, 2 * kSpace + 3 * 2 * kSpace);
  EXPECT_EQ(executor.memory()[1].measured, 3 * kSpace + kSpace + kSpace);
  EXPECT_EQ(executor.memory()[1].planned, 3 * kSpace + kSpace + 2 * kSpace);
}

TEST(Memory, IsNotMeasuredUnlessAsked) {
  Executor executor(pipeline_program({.devices = {0, 1}}));
  run_all(executor, chain_inputs(1), 1);
  EXPECT_EQ(executor.memory()[0].measured, 0u);
  EXPECT_GT(executor.memory()[0].planned, 0u);
}

// y = x + w through a slot off the device, with w off the device as well; the lane is 2 deep.
TEST(Memory, OffTheDeviceIsCountedApart) {
  auto program = std::make_shared<Program>();
  program->inputs = {{"x", tensor_type()}};
  program->outputs = {{"y", tensor_type()}};
  program->devices = {{.scratch_bytes = kSpace, .host_variable_bytes = kSpace}};
  program->lanes = {{.depth = 2, .host_slot_bytes = kSpace}};
  BufferRef x{.arena = Arena::kScratch, .bytes = kBytes}, stored{.arena = Arena::kHostSlots, .bytes = kBytes};
  BufferRef w{.arena = Arena::kHostVariables, .bytes = kBytes};
  program->variables.push_back({.name = "w", .type = tensor_type(), .places = {w}, .initial = 2});
  Task store{.inputs = {{.input = 0, .to = x}}, .waits = {{.task = 1, .lag = 2}}};
  store.instructions.push_back(instruction(
      "store", {x}, {stored}, [](const KernelArgs& args) { std::copy_n(input(args, 0), kWidth, output(args, 0)); }));
  Task load{.outputs = {{.output = 0, .from = x}}, .waits = {{.task = 0}}};
  load.instructions.push_back(instruction("add", {stored, w}, {x}, [](const KernelArgs& args) {
    for (std::int64_t i = 0; i < kWidth; ++i) output(args, 0)[i] = input(args, 0)[i] + input(args, 1)[i];
  }));
  program->step.push_back(std::move(store));
  program->step.push_back(std::move(load));
  Executor executor(program, {.measures_memory = true});
  V x_values = chain_inputs(5), y = run_all(executor, x_values, 5);
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], x_values[i] + 2);
  DeviceMemory memory = executor.memory().at(0);
  EXPECT_EQ(memory.planned, kSpace);
  EXPECT_EQ(memory.measured, kSpace);
  EXPECT_EQ(memory.planned_host, 3 * kSpace);
  EXPECT_EQ(memory.measured_host, 3 * kSpace);
}

// Whoever had the memory before.
TEST(ArenaMemory, BeginsWithZerosOnItsBoundary) {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  for (std::size_t bytes : {std::size_t{1000}, kHuge / 2, 3 * kHuge + 1000}) {
    for (int i = 0; i < 3; ++i) {
      ArenaMemory arena(bytes, "test");
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.data()) % (bytes < kHuge / 4 ? kBufferAlignment : kHuge), 0u);
      EXPECT_TRUE(std::all_of(arena.data(), arena.data() + bytes, [](std::byte byte) { return byte == std::byte{0}; }));
      std::memset(arena.data(), 0xff, bytes);
    }
  }
}

TEST(ArenaMemory, TellsWhichLinesWereWritten) {
  ArenaMemory arena(1000, "test", ArenaMemory::Fill::kPattern);
  EXPECT_EQ(arena.touched_bytes(), 0u);
  arena.data()[64] = std::byte{0};
  arena.data()[999] = std::byte{0};
  EXPECT_EQ(arena.touched_bytes(), 64u + 1000 % 64);
  std::memcpy(arena.data() + 128, arena.data() + 192, 64);  // the pattern of another line is not the own
  EXPECT_EQ(arena.touched_bytes(), 128u + 1000 % 64);
}

}  // namespace
}  // namespace aspen::testing
