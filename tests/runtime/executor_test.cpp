// The executor on programs written by hand: no compiler involved.
#include "aspen/runtime/executor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/base/error.h"
#include "aspen/runtime/copy_kernel.h"
#include "pipeline_program.h"

namespace aspen::testing {
namespace {

// y = x + w on two floats, and in the update w += 1. Scratch: x at 0, y at 64.
struct AddProgram {
  std::shared_ptr<Program> program = std::make_shared<Program>();
  TensorType type{DType::kF32, {2}};
  BufferRef x{.arena = Arena::kScratch, .bytes = 8}, y{.arena = Arena::kScratch, .offset = 64, .bytes = 8},
      w{.arena = Arena::kVariables, .bytes = 8}, one{.arena = Arena::kConstants, .bytes = 8};

  explicit AddProgram(std::int64_t accumulation = 1) {
    program->inputs.push_back({"x", type});
    program->outputs.push_back({"y", type});
    program->variables.push_back({.name = "w", .type = type, .places = {w}, .initial = 0.5});
    program->constants.push_back({one, bytes({1, 1})});
    program->devices.push_back({.variable_bytes = 64, .constant_bytes = 64, .scratch_bytes = 128});
    program->lanes.push_back({});
    Task& step = program->step.emplace_back();
    step.inputs.push_back({.input = 0, .to = x});
    step.instructions.push_back(add(x, w, y));
    step.outputs.push_back({.output = 0, .from = y});
    program->update.emplace_back().instructions.push_back(add(w, one, w));
    program->gradient_accumulation = accumulation;
    program->training = true;
  }

  std::vector<Instruction>& instructions() { return program->step[0].instructions; }

  static std::vector<std::byte> bytes(const V& values) {
    std::vector<std::byte> result(values.size() * sizeof(float));
    std::memcpy(result.data(), values.data(), result.size());
    return result;
  }

  static Instruction add(BufferRef a, BufferRef b, BufferRef to) {
    return instruction("add", {a, b}, {to}, [](const KernelArgs& args) {
      for (int i = 0; i < 2; ++i) output(args, 0)[i] = input(args, 0)[i] + input(args, 1)[i];
    });
  }
};

V run(Executor& executor, const V& x, std::int64_t d, std::int64_t g, HostOutput output, std::size_t returned) {
  V y(2 * returned, -7.0f);
  output.data = y.data();
  executor.run({.device_iterations = d, .gradient_accumulation = g, .inputs = {x.data()}, .outputs = {output}});
  return y;
}

TEST(Executor, FillsVariablesAndCopiesThemInAndOut) {
  Executor executor(AddProgram().program);
  V w(2);
  executor.read_variable("w", std::as_writable_bytes(std::span(w)));
  EXPECT_EQ(w, (V{0.5f, 0.5f}));
  V set{3, 4};
  executor.write_variable("w", std::as_bytes(std::span(set)));
  executor.read_variable("w", std::as_writable_bytes(std::span(w)));
  EXPECT_EQ(w, set);
}

TEST(Executor, ReturnsAllMicroBatchesAndUpdatesAfterEachIteration) {
  Executor executor(AddProgram(2).program);
  V y = run(executor, {0, 0, 1, 1, 2, 2, 3, 3}, 2, 2, {.mode = OutputMode::kAll}, 4);
  EXPECT_EQ(y, (V{0.5f, 0.5f, 1.5f, 1.5f, 3.5f, 3.5f, 4.5f, 4.5f}));
  EXPECT_EQ(executor.step(), 4u);
}

TEST(Executor, FinalReturnsTheLastMicroBatch) {
  Executor executor(AddProgram(2).program);
  EXPECT_EQ(run(executor, {0, 0, 1, 1, 2, 2, 3, 3}, 2, 2, {.mode = OutputMode::kFinal}, 1), (V{4.5f, 4.5f}));
}

TEST(Executor, SumAddsAllMicroBatches) {
  Executor executor(AddProgram(2).program);
  EXPECT_EQ(run(executor, {0, 0, 1, 1, 2, 2, 3, 4}, 2, 2, {.mode = OutputMode::kSum}, 1), (V{10, 11}));
}

TEST(Executor, EveryNReturnsWholeIterations) {
  Executor executor(AddProgram(2).program);
  V x(2 * 4 * 2, 0.0f);
  V y = run(executor, x, 4, 2, {.mode = OutputMode::kEveryN, .period = 2}, 4);
  EXPECT_EQ(y, (V{1.5f, 1.5f, 1.5f, 1.5f, 3.5f, 3.5f, 3.5f, 3.5f}));
}

TEST(Executor, ReturnsWhatVariablesHoldAfterEachMicroBatch) {
  AddProgram add(2);
  add.program->outputs.push_back({"w", add.type});
  add.program->variable_outputs.push_back({.output = 1, .variable = 0});
  Executor executor(add.program);
  V x(2 * 4), y(2 * 4), w(2 * 4);
  RunRequest request{.device_iterations = 2,
                     .gradient_accumulation = 2,
                     .inputs = {x.data()},
                     .outputs = {{.data = y.data()}, {.data = w.data()}}};
  executor.run(request);
  EXPECT_EQ(w, (V{0.5f, 0.5f, 1.5f, 1.5f, 1.5f, 1.5f, 2.5f, 2.5f}));
  request.outputs[1].mode = OutputMode::kSum;
  executor.run(request);
  EXPECT_EQ(V(w.begin(), w.begin() + 2), (V{2.5f + 3.5f + 3.5f + 4.5f, 2.5f + 3.5f + 3.5f + 4.5f}));
  request.outputs[1].mode = OutputMode::kFinal;
  executor.run(request);
  EXPECT_EQ(V(w.begin(), w.begin() + 2), (V{6.5f, 6.5f}));
}

// The same program on the memory of the call: it reads x where it lies and writes y where it goes.
std::shared_ptr<Program> without_copies(std::int64_t accumulation) {
  AddProgram add(accumulation);
  add.x.arena = Arena::kInputs;
  add.y = {.arena = Arena::kOutputs, .bytes = 8};
  Task& step = add.program->step[0];
  step.inputs[0].to = add.x;
  step.instructions = {AddProgram::add(add.x, add.w, add.y), AddProgram::add(add.y, add.x, add.y)};
  step.outputs[0].from = add.y;
  add.program->devices[0].scratch_bytes = 0;
  return add.program;
}

TEST(Executor, ReadsInputsWhereTheyLieAndWritesOutputsWhereTheyGo) {
  const V x{0, 0, 1, 1, 2, 2, 3, 4};  // y = 2 x + w
  const auto outputs = [&](HostOutput output, std::size_t returned) {
    Executor executor(without_copies(2));
    return run(executor, x, 2, 2, output, returned);
  };
  EXPECT_EQ(outputs({.mode = OutputMode::kAll}, 4), (V{0.5f, 0.5f, 2.5f, 2.5f, 5.5f, 5.5f, 7.5f, 9.5f}));
  EXPECT_EQ(outputs({.mode = OutputMode::kFinal}, 1), (V{7.5f, 9.5f}));
  EXPECT_EQ(outputs({.mode = OutputMode::kSum}, 1), (V{16, 18}));
  EXPECT_EQ(outputs({.mode = OutputMode::kEveryN, .period = 2}, 2), (V{5.5f, 5.5f, 7.5f, 9.5f}));
}

TEST(Executor, CopiesAnOutputThatIsAnotherOne) {
  std::shared_ptr<Program> program = without_copies(1);
  program->outputs.insert(program->outputs.end(), 2, {"again", program->outputs[0].type});
  program->step[0].outputs.push_back({.output = 1, .from = program->step[0].outputs[0].from});
  program->step[0].outputs.push_back({.output = 2, .from = program->step[0].inputs[0].to});
  Executor executor(program);
  V x{1, 2, 3, 4}, y(2), again(4), same(4);
  executor.run(
      {.device_iterations = 2,
       .inputs = {x.data()},
       .outputs = {{.data = y.data(), .mode = OutputMode::kSum}, {.data = again.data()}, {.data = same.data()}}});
  EXPECT_EQ(again, (V{2.5f, 4.5f, 7.5f, 9.5f}));
  EXPECT_EQ(y, (V{10, 14}));
  EXPECT_EQ(same, x);
}

TEST(Executor, TransfersNothingIfTheProgramSaysSo) {
  AddProgram add;
  add.program->step[0].inputs.clear();
  add.program->has_transfers = false;
  Executor executor(add.program);
  executor.run({.device_iterations = 3, .inputs = {nullptr}, .outputs = {{.data = nullptr}}});
  EXPECT_EQ(executor.step(), 3u);
  const TransferTimes times = executor.transfers();
  ASSERT_EQ(times.inputs.size(), 1u);
  ASSERT_EQ(times.outputs.size(), 1u);
  EXPECT_TRUE(times.inputs[0].begin.empty() && times.inputs[0].end.empty());
  EXPECT_TRUE(times.outputs[0].begin.empty() && times.outputs[0].end.empty());
}

TEST(Executor, PeriodMustDivideTheIterations) {
  Executor executor(AddProgram().program);
  V x(6), y(6);
  RunRequest request{.device_iterations = 3,
                     .inputs = {x.data()},
                     .outputs = {{.data = y.data(), .mode = OutputMode::kEveryN, .period = 2}}};
  EXPECT_THROW(executor.run(request), UserError);
}

TEST(Executor, SumOfHalvesRoundsOnce) {
  auto program = std::make_shared<Program>();
  TensorType type{DType::kF16, {1}};
  BufferRef x{.arena = Arena::kScratch, .bytes = 2};
  program->inputs.push_back({"x", type});
  program->outputs.push_back({"x", type});
  program->devices.push_back({.scratch_bytes = 64});
  program->lanes.push_back({});
  program->step.push_back({.inputs = {{.input = 0, .to = x}}, .outputs = {{.output = 0, .from = x}}});
  Executor executor(program);
  std::vector<Half> values(4096, static_cast<Half>(1)), sum(1);
  executor.run({.device_iterations = 4096,
                .inputs = {values.data()},
                .outputs = {{.data = sum.data(), .mode = OutputMode::kSum}}});
  EXPECT_EQ(static_cast<float>(sum[0]), 4096.0f);  // adding in half would stop at 2048
}

TEST(Executor, ChecksWhatTheRunAsksFor) {
  Executor executor(AddProgram(2).program);
  V x(4), y(4);
  RunRequest request{
      .device_iterations = 1, .gradient_accumulation = 1, .inputs = {x.data()}, .outputs = {{.data = y.data()}}};
  EXPECT_THROW(executor.run(request), UserError);
  request.gradient_accumulation = 2;
  request.device_iterations = 0;
  EXPECT_THROW(executor.run(request), UserError);
  std::vector<std::byte> bytes(4);
  EXPECT_THROW(executor.read_variable("w", bytes), UserError);
  EXPECT_THROW(executor.read_variable("ww", bytes), UserError);
}

TEST(Executor, ErrorsNameOpPlaceAndMicroBatch) {
  AddProgram add;
  int calls = 0;
  add.instructions()[0].kernel = make_kernel([&](const KernelArgs&) {
    if (++calls == 3) throw UserError("index 9 is out of range");
  });
  Executor executor(add.program);
  V x(10), y(10);
  RunRequest request{.device_iterations = 5, .inputs = {x.data()}, .outputs = {{.data = y.data()}}};
  try {
    executor.run(request);
    FAIL() << "no error";
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(), "index 9 is out of range\n  in op add, captured at model.py:3 of micro-batch 2");
  }
  executor.run(request);  // usable again
  EXPECT_EQ(calls, 8);
}

TEST(Executor, AnErrorResetsAccumulators) {
  AddProgram add;
  add.program->variables[0].kind = VariableKind::kAccumulator;
  add.program->update.clear();
  add.instructions()[0] = AddProgram::add(add.x, add.w, add.w);
  add.instructions().push_back(
      {.request = {.op = "fail"}, .kernel = make_kernel([](const KernelArgs&) { throw DeviceError("gone"); })});
  Executor executor(add.program);
  V x{1, 1}, y(2), w(2);
  EXPECT_THROW(executor.run({.inputs = {x.data()}, .outputs = {{.data = y.data()}}}), DeviceError);
  executor.read_variable("w", std::as_writable_bytes(std::span(w)));
  EXPECT_EQ(w, (V{0.5f, 0.5f}));
}

TEST(Executor, StopsBetweenMicroBatchesWhenAsked) {
  AddProgram add;
  int calls = 0, asked = 0;
  add.instructions()[0].kernel = make_kernel([&](const KernelArgs&) {
    ++calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  });
  Executor executor(add.program);
  V x(2000), y(2000);
  RunRequest request{.device_iterations = 1000, .inputs = {x.data()}, .outputs = {{.data = y.data()}}};
  request.should_stop = [&] { return ++asked == 2; };
  EXPECT_THROW(executor.run(request), Interrupted);
  EXPECT_EQ(asked, 2);
  EXPECT_GE(calls, 2);
  EXPECT_LE(calls, 40);  // two intervals of 20 ms at 2 ms a step, with room for a busy machine
}

TEST(Executor, HandsRandomOpsSeedAndStep) {
  AddProgram add;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen;
  add.instructions()[0].kernel =
      make_kernel([&](const KernelArgs& args) { seen.emplace_back(args.step->seed, args.step->step); });
  Executor executor(add.program);
  executor.set_random_state(42, 7);
  run(executor, {0, 0, 0, 0}, 2, 1, {}, 2);
  EXPECT_EQ(seen, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{42, 7}, {42, 8}}));
  EXPECT_EQ(executor.seed(), 42u);
  EXPECT_EQ(executor.step(), 9u);
}

TEST(Executor, GivesWorkspacesAndNullForAbsentInputs) {
  AddProgram add;
  bool checked = false;
  auto kernel = make_kernel(
      [&](const KernelArgs& args) {
        checked = args.inputs[0] == nullptr && args.workspace != nullptr &&
                  reinterpret_cast<std::uintptr_t>(args.workspace) % kBufferAlignment == 0;
      },
      10);
  add.instructions()[0].kernel = std::move(kernel);
  add.instructions()[0].inputs[0] = {.absent = true};
  add.instructions()[0].workspace = {.arena = Arena::kScratch, .offset = 64, .bytes = 10};
  Executor executor(add.program);
  run(executor, {0, 0}, 1, 1, {}, 1);
  EXPECT_TRUE(checked);
}

TEST(Executor, RejectsABufferOutsideItsArena) {
  AddProgram add;
  add.program->devices[0].scratch_bytes = 64;
  EXPECT_THROW(Executor{add.program}, InternalError);
}

TEST(Executor, RejectsTasksThatDoNotFitTheProgram) {
  AddProgram inference;
  inference.program->training = false;
  EXPECT_THROW(Executor{inference.program}, InternalError);
  AddProgram input;
  input.program->step[0].inputs[0].input = 1;
  EXPECT_THROW(Executor{input.program}, InternalError);
  AddProgram output;
  output.program->step[0].outputs[0].output = 1;
  EXPECT_THROW(Executor{output.program}, InternalError);
  AddProgram update;
  update.program->update[0].outputs = {{.output = 0, .from = update.w}};
  EXPECT_THROW(Executor{update.program}, InternalError);
  AddProgram variable;
  variable.program->variables[0].places[0].bytes = 4;
  EXPECT_THROW(Executor{variable.program}, InternalError);
}

TEST(CopyKernel, CopiesBytes) {
  V from{1, 2, 3}, to(3);
  const void* inputs[] = {from.data()};
  void* outputs[] = {to.data()};
  make_copy_kernel(12)->run({.inputs = inputs, .outputs = outputs});
  EXPECT_EQ(to, from);
}

}  // namespace
}  // namespace aspen::testing
