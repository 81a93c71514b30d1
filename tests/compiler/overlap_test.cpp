// Overlapped inputs and outputs: who moves them, how far ahead, and that no bit changes.
#include "aspen/base/error.h"
#include "aspen/runtime/task_order.h"
#include "harness.h"

namespace aspen::testing {
namespace {

std::string marked(std::string text, bool is_overlapped) {
  std::string mark = is_overlapped ? " overlapped" : "";
  for (auto place = text.find('!'); place != std::string::npos; place = text.find('!')) text.replace(place, 1, mark);
  return text;
}

// Two layers on two devices; the backward pass reads x as well.
std::string two_devices(bool is_overlapped) {
  return marked(
      "graph @main(%x: f32[2, 3]!, %target: f32[2, 2]!) {\n"
      "  variable %w0: f32[3, 4] parameter trainable\n"
      "  variable %w1: f32[4, 2] parameter trainable\n"
      "  variable %count: f32[2, 2] buffer\n"
      "  %0: f32[2, 4] = dot(%x, %w0) {transpose_a=false, transpose_b=false}\n"
      "  %1: f32[2, 4] = tanh(%0)\n"
      "  %2: f32[2, 2] = dot(%1, %w1) {transpose_a=false, transpose_b=false} device 1 stage 1\n"
      "  %3: f32[2, 2] = sub(%2, %target) device 1 stage 1\n"
      "  %4: f32[2, 2] = mul(%3, %3) device 1 stage 1\n"
      "  %5: f32[2, 2] = add(%count, %4) device 1 stage 1\n"
      "  assign(%count, %5) device 1 stage 1\n"
      "  %6: f32[] = reduce_sum(%4) {axes=[0, 1]} device 1 stage 1\n"
      "  %7: f32[] = loss(%6) device 1 stage 1\n"
      "  return y: %2!, loss: %7!, count: %count!, x: %x!\n"
      "}\n",
      is_overlapped);
}

std::vector<float> numbers(std::int64_t count) {
  std::vector<float> result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(static_cast<float>((i * 37) % 101) / 50.0f - 1);
  return result;
}

struct Outcome {
  std::vector<std::vector<float>> outputs, variables;
  bool operator==(const Outcome&) const = default;
};

Outcome run(bool is_overlapped, CompileOptions options) {
  constexpr std::int64_t kIterations = 4;
  options.device_iterations = kIterations;
  auto replicas = static_cast<std::int64_t>(options.replicas);
  if (options.training) options.optimizer = {.kind = "sgd", .groups = {{.parameters = {"w0", "w1"}}}};
  auto graph = parse_graph(two_devices(is_overlapped));
  std::shared_ptr<Program> program = compile(*graph, options, reference());
  Executor executor(program, {.thread_per_device = true});
  auto write = [&](const std::string& name, const std::vector<float>& values) {
    executor.write_variable(name, std::as_bytes(std::span(values)));
  };
  write("w0", numbers(12));
  write("w1", numbers(8));
  if (options.training) {
    std::vector<float> settings(kNumSettings, 0.0f);
    settings[kLearningRate] = 0.01f;
    settings[kLossScaling] = 1;
    write("settings___0", settings);
  }
  std::int64_t count = kIterations * options.gradient_accumulation * replicas;
  std::vector<float> x = numbers(6 * count), target = numbers(4 * count);
  Outcome outcome;
  RunRequest request{.device_iterations = kIterations, .gradient_accumulation = options.gradient_accumulation};
  request.inputs = {x.data(), target.data()};
  for (const auto& output : program->outputs) outcome.outputs.emplace_back(output.type.numel() * count, -77.0f);
  for (auto& output : outcome.outputs) request.outputs.push_back({.data = output.data()});
  for (int call = 0; call < 2; ++call) executor.run(request);
  for (const char* name : {"w0", "w1", "count"}) {
    auto& values = outcome.variables.emplace_back(executor.host_bytes(name) / sizeof(float));
    executor.read_variable(name, std::as_writable_bytes(std::span(values)));
  }
  return outcome;
}

TEST(Overlap, ChangesNoBit) {
  for (bool training : {false, true}) {
    for (auto execution : {Execution::kSharded, Execution::kPhased, Execution::kPipelined}) {
      for (std::int64_t prefetch : {0, 1, 3}) {
        for (std::int64_t accumulation : {1, 5}) {
          if (accumulation > 1 && !training) continue;
          if (execution == Execution::kPipelined && training && accumulation == 1) continue;  // too short
          CompileOptions options{.training = training, .gradient_accumulation = accumulation};
          options.execution = execution;
          options.prefetch_depth = prefetch;
          options.replicas = prefetch == 3 ? 2 : 1;
          EXPECT_EQ(run(true, options), run(false, options))
              << "training " << training << ", execution " << static_cast<int>(execution) << ", prefetch " << prefetch
              << ", accumulation " << accumulation;
        }
      }
    }
  }
}

TEST(Overlap, OfVariablesKeptOffTheDevice) {
  CompileOptions options{.execution = Execution::kSharded};
  options.locations.weights.off_device = true;
  EXPECT_EQ(run(true, options), run(false, options));
}

const Task& find(const Program& program, const std::string& name) {
  for (const Task& task : program.step) {
    if (task.name == name) return task;
  }
  throw InternalError("no task {}", name);
}

// The lag with which a task waits for another; -1: it does not.
std::int64_t lag(const Program& program, const std::string& task, const std::string& before) {
  for (const Wait& wait : find(program, task).waits) {
    if (program.step[wait.task].name == before) return wait.lag;
  }
  return -1;
}

const char* const kOneDevice =
    "graph @main(%x: f32[2, 3] overlapped, %z: f32[2, 3]) {\n"
    "  %0: f32[2, 3] = add(%x, %z)\n"
    "  return y: %0 overlapped\n"
    "}\n";

TEST(Overlap, LeavesTheMovingToDevicesThatComputeNothing) {
  Session session(kOneDevice, {.device_iterations = 4, .execution = Execution::kSharded, .prefetch_depth = 2});
  const Program& program = session.program();
  ASSERT_EQ(program.step.size(), 3u);
  const Task &inputs = find(program, "inputs"), &step = find(program, "step"), &outputs = find(program, "outputs");
  EXPECT_EQ(inputs.device, 1u);
  EXPECT_TRUE(inputs.instructions.empty());
  ASSERT_EQ(inputs.inputs.size(), 1u);
  EXPECT_EQ(inputs.inputs[0].input, 0u);
  EXPECT_EQ(inputs.inputs[0].to.arena, Arena::kSlots);
  EXPECT_EQ(program.lanes[inputs.inputs[0].to.owner].device, 0u);
  ASSERT_EQ(step.inputs.size(), 1u);  // z is not overlapped
  EXPECT_EQ(step.inputs[0].input, 1u);
  EXPECT_TRUE(step.outputs.empty());
  EXPECT_EQ(outputs.device, 2u);
  EXPECT_TRUE(outputs.instructions.empty());
  EXPECT_EQ(outputs.outputs.size(), 1u);
}

TEST(Overlap, RunsAheadByThePrefetchDepth) {
  for (std::int64_t prefetch : {1, 3}) {
    Session session(kOneDevice, {.device_iterations = 4, .execution = Execution::kSharded, .prefetch_depth = prefetch});
    const Program& program = session.program();
    EXPECT_EQ(lag(program, "inputs", "step"), 1 + prefetch);
    EXPECT_EQ(lag(program, "step", "inputs"), 0);
    EXPECT_EQ(lag(program, "outputs", "step"), 0);
    EXPECT_EQ(lag(program, "step", "outputs"), 1 + prefetch);
    EXPECT_EQ(lag(program, "inputs", "outputs"), -1);
    EXPECT_EQ(program.lanes[find(program, "step").lane].depth, 1);  // nothing else is kept more than once
  }
}

TEST(Overlap, RefusesANegativePrefetchDepth) {
  EXPECT_THROW(Session(kOneDevice, {.execution = Execution::kSharded, .prefetch_depth = -1}), UserError);
}

TEST(Overlap, LetsDevicesTakeTurnsAsBefore) {
  for (auto execution : {Execution::kSharded, Execution::kPhased}) {
    CompileOptions options{.training = true, .execution = execution, .prefetch_depth = 2};
    options.optimizer = {.kind = "sgd", .groups = {{.parameters = {"w0", "w1"}}}};
    EXPECT_TRUE(take_turns(Session(two_devices(true), options).program().step));
  }
}

TEST(Overlap, IsNotMadeWithoutMarks) {
  Session session(two_devices(false), {.device_iterations = 4, .execution = Execution::kSharded});
  EXPECT_EQ(session.program().devices.size(), 2u);
}

}  // namespace
}  // namespace aspen::testing
