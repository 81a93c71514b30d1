// Operands that are packed once instead of in every run.
#include "aspen/runtime/packing.h"

#include <gtest/gtest.h>

#include "aspen/runtime/executor.h"
#include "aspen/runtime/footprint.h"
#include "pipeline_program.h"

namespace aspen::testing {
namespace {

// y = x + 2 w on two floats. What it packs is 2 w.
class AddTwice final : public Kernel {
 public:
  explicit AddTwice(int& packs) : packs_(packs) {}
  std::size_t packed_bytes() const override { return 2 * sizeof(float); }
  void pack(const KernelArgs& args, void* packed) const override {
    ++packs_;
    for (int i = 0; i < 2; ++i) static_cast<float*>(packed)[i] = 2 * input(args, 1)[i];
  }
  void run(const KernelArgs& args) const override {
    float own[2];
    if (args.packed == nullptr) pack(args, own);
    const auto* doubled = args.packed == nullptr ? own : static_cast<const float*>(args.packed);
    for (int i = 0; i < 2; ++i) output(args, 0)[i] = input(args, 0)[i] + doubled[i];
  }

 private:
  int& packs_;
};

struct PackingProgram {
  int packs = 0;
  std::shared_ptr<Program> program = std::make_shared<Program>();
  BufferRef w{.arena = Arena::kVariables, .bytes = 8};

  PackingProgram() {
    const TensorType type{DType::kF32, {2}};
    const BufferRef x{.arena = Arena::kScratch, .bytes = 8}, y{.arena = Arena::kScratch, .offset = 64, .bytes = 8};
    program->inputs.push_back({"x", type});
    program->outputs.push_back({"y", type});
    program->variables.push_back({.name = "w", .type = type, .places = {w}, .initial = 0.5});
    program->devices.push_back({.variable_bytes = 64, .scratch_bytes = 128});
    program->lanes.push_back({});
    Task& step = program->step.emplace_back();
    step.inputs.push_back({.input = 0, .to = x});
    Instruction add{.inputs = {x, w}, .outputs = {y}};
    add.request.op = "add_twice";
    add.kernel = std::make_shared<AddTwice>(packs);
    step.instructions.push_back(std::move(add));
    step.outputs.push_back({.output = 0, .from = y});
  }

  const BufferRef& packed() const { return program->step[0].instructions[0].packed; }
};

V run(Executor& executor) {
  const V x{1, 2};
  V y(2);
  executor.run({.inputs = {x.data()}, .outputs = {{.data = y.data(), .mode = OutputMode::kAll}}});
  return y;
}

TEST(Packing, IsDoneOnceAndAgainWhenTheHostHasWritten) {
  PackingProgram twice;
  plan_packing(*twice.program);
  EXPECT_EQ(twice.packed().bytes, 8u);
  EXPECT_EQ(planned_bytes(*twice.program, 0), 64u + 128u + 64u);
  EXPECT_EQ(footprint_of(*twice.program)[0].total(), planned_bytes(*twice.program, 0));
  Executor executor(twice.program);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(executor), (V{2, 3}));
  EXPECT_EQ(twice.packs, 1);
  const V w{3, 4};
  executor.write_variable("w", std::as_bytes(std::span(w)));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(executor), (V{7, 10}));
  EXPECT_EQ(twice.packs, 2);
  const V last{5, 6};
  executor.write_replicas("w", std::as_bytes(std::span(last)));
  EXPECT_EQ(run(executor), (V{11, 14}));
  EXPECT_EQ(twice.packs, 3);
}

// y = x + 2 w + 2 w
TEST(Packing, IsSharedByEqualInstructions) {
  PackingProgram twice;
  Task& step = twice.program->step[0];
  Instruction again = step.instructions[0];
  again.inputs[0] = again.outputs[0] = step.instructions[0].outputs[0];
  step.instructions.push_back(again);
  plan_packing(*twice.program);
  EXPECT_EQ(step.instructions[1].packed.bytes, 8u);
  EXPECT_EQ(planned_bytes(*twice.program, 0), 64u + 128u + 64u);
  EXPECT_EQ(footprint_of(*twice.program)[0].total(), planned_bytes(*twice.program, 0));
  Executor executor(twice.program);
  EXPECT_EQ(run(executor), (V{3, 4}));
  EXPECT_EQ(twice.packs, 1);
}

TEST(Packing, KeepsToALimit) {
  PackingProgram twice;
  twice.program->replicas = 2;
  plan_packing(*twice.program, 127);
  EXPECT_EQ(twice.packed().bytes, 0u);
  EXPECT_EQ(twice.program->devices[0].packed_bytes, 0u);
  plan_packing(*twice.program, 128);
  EXPECT_EQ(twice.packed().bytes, 8u);
}

TEST(Packing, IsTheKernelsBusinessInTraining) {
  PackingProgram twice;
  twice.program->training = true;
  plan_packing(*twice.program);
  EXPECT_EQ(twice.packed().bytes, 0u);
  Executor executor(twice.program);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(executor), (V{2, 3}));
  EXPECT_EQ(twice.packs, 3);
}

TEST(Packing, LeavesOutWhatTheProgramWrites) {
  PackingProgram twice;
  Instruction write = twice.program->step[0].instructions[0];
  write.outputs = {twice.w};
  twice.program->step[0].instructions.push_back(write);
  plan_packing(*twice.program);
  EXPECT_EQ(twice.packed().bytes, 0u);
}

TEST(Packing, LeavesOutWhatIsNoVariable) {
  PackingProgram twice;
  std::swap(twice.program->step[0].instructions[0].inputs[0], twice.program->step[0].instructions[0].inputs[1]);
  plan_packing(*twice.program);
  EXPECT_EQ(twice.packed().bytes, 0u);
}

TEST(Packing, KeepsNothingTwiceWithinAMemoryBudget) {
  PackingProgram twice;
  twice.program->devices[0].budget_bytes = 1 << 20;
  plan_packing(*twice.program);
  EXPECT_EQ(twice.packed().bytes, 0u);
}

}  // namespace
}  // namespace aspen::testing
