// What several devices share and exchange apart from the values of a pipeline: copies of variables, updates that wait
// for each other, slots, and a device that only moves inputs and outputs.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/base/error.h"
#include "pipeline_program.h"

namespace aspen::testing {
namespace {

BufferRef buffer(Arena arena, std::size_t owner, std::size_t number) {
  return {.arena = arena, .owner = owner, .offset = number * kSpace, .bytes = kBytes};
}

void copy(const KernelArgs& args) { std::copy_n(input(args, 0), kWidth, output(args, 0)); }

// y = w on device 1, where w is at home on device 0, which adds "rate" to it in every update; device 1 has copies.
std::shared_ptr<Program> copied_program() {
  auto program = std::make_shared<Program>();
  program->training = true;
  program->outputs = {{"y", tensor_type()}};
  program->devices = {{.variable_bytes = 2 * kSpace}, {.variable_bytes = 2 * kSpace, .scratch_bytes = kSpace}};
  program->lanes = {{.device = 0}, {.device = 1}};
  BufferRef w = buffer(Arena::kVariables, 0, 0), rate = buffer(Arena::kVariables, 0, 1);
  BufferRef copy_of_w = buffer(Arena::kVariables, 1, 0), copy_of_rate = buffer(Arena::kVariables, 1, 1);
  program->variables.push_back({.name = "w", .type = tensor_type(), .places = {w, copy_of_w}, .initial = 2});
  program->variables.push_back({.name = "rate", .type = tensor_type(), .places = {rate, copy_of_rate}, .initial = 1});
  BufferRef y = buffer(Arena::kScratch, 1, 0);
  Task task{.device = 1, .lane = 1, .outputs = {{.output = 0, .from = y}}};
  task.instructions.push_back(instruction("copy", {copy_of_w}, {y}, copy));
  program->step.push_back(std::move(task));
  program->update.emplace_back().instructions.push_back(instruction("add", {w, rate}, {w}, [](const KernelArgs& args) {
    for (std::int64_t i = 0; i < kWidth; ++i) output(args, 0)[i] += input(args, 1)[i];
  }));
  return program;
}

TEST(Devices, RefreshCopiesOfVariablesAfterEveryUpdate) {
  for (bool thread_per_device : {false, true}) {
    Executor executor(copied_program(), {.thread_per_device = thread_per_device});
    V y(4 * kWidth);
    write(executor, "rate", V(kWidth, 0.5f));  // reaches both places
    write(executor, "w", V(kWidth, 3.0f));
    executor.run({.device_iterations = 4, .outputs = {{.data = y.data()}}});
    for (std::size_t m = 0; m < 4; ++m) EXPECT_EQ(y[m * kWidth], 3.0f + 0.5f * static_cast<float>(m));
    EXPECT_EQ(read(executor, "w"), V(kWidth, 5.0f));
  }
}

// Off the devices there is one place for all: nobody reads it while the update of another device writes.
TEST(Devices, ReadOffTheDevicesWhatTheLastUpdateLeft) {
  for (bool is_returned : {false, true}) {
    auto program = copied_program();
    BufferRef w = buffer(Arena::kHostVariables, 0, 0), rate = buffer(Arena::kVariables, 0, 1);
    program->devices[0].host_variable_bytes = kSpace;
    program->variables[0].places = {w};
    program->variables[1].places = {rate};
    Task& step = program->step[0];
    if (is_returned) {
      step.outputs[0].from = w;
    } else {
      step.instructions[0].inputs = {w};
    }
    program->update[0].instructions.clear();
    program->update[0].instructions.push_back(instruction("add", {w, rate}, {w}, [](const KernelArgs& args) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      for (std::int64_t i = 0; i < kWidth; ++i) output(args, 0)[i] += input(args, 1)[i];
    }));
    for (bool thread_per_device : {false, true}) {
      Executor executor(program, {.thread_per_device = thread_per_device});
      V y(4 * kWidth);
      executor.run({.device_iterations = 4, .outputs = {{.data = y.data()}}});
      for (std::size_t m = 0; m < 4; ++m) EXPECT_EQ(y[m * kWidth], 2.0f + static_cast<float>(m)) << is_returned;
    }
  }
}

TEST(Devices, AFaultInAnUpdateReleasesWhoWaitsForTheRefresh) {
  auto program = copied_program();
  bool fails = true;  // written between runs only
  auto inner = program->update[0].instructions[0].kernel;
  program->update[0].instructions[0].kernel = make_kernel([&, inner](const KernelArgs& args) {
    inner->run(args);
    if (fails && args.step->step == 2) throw DeviceError("injected");
  });
  for (bool thread_per_device : {false, true}) {
    fails = true;
    Executor executor(program, {.thread_per_device = thread_per_device});
    V y(4 * kWidth);
    RunRequest request{.device_iterations = 4, .outputs = {{.data = y.data()}}};
    EXPECT_THROW(executor.run(request), DeviceError);
    EXPECT_EQ(read(executor, "w"), V(kWidth, 5.0f));  // two updates, and the one that failed after it wrote
    fails = false;
    executor.run(request);
    EXPECT_EQ(y[0], 5.0f);  // the copy agrees with its home
    EXPECT_EQ(y[3 * kWidth], 8.0f);
  }
}

// Device 0 doubles a number that device 1 then adds to w: the second update task waits for the first, across devices.
// Update number `failing` fails.
std::shared_ptr<Program> chained_update_program(const std::uint64_t& failing) {
  auto program = std::make_shared<Program>();
  program->training = true;
  program->devices = {{.variable_bytes = kSpace}, {.variable_bytes = kSpace}};
  program->lanes = {{.device = 0}, {.device = 1}, {.device = 1, .slot_bytes = kSpace}};
  BufferRef number = buffer(Arena::kVariables, 0, 0), w = buffer(Arena::kVariables, 1, 0);
  BufferRef sent = buffer(Arena::kSlots, 2, 0);
  program->variables.push_back({.name = "number", .type = tensor_type(), .places = {number}, .initial = 1});
  program->variables.push_back({.name = "w", .type = tensor_type(), .places = {w}});
  program->step = std::vector<Task>(2);
  program->step[1] = {.device = 1, .lane = 1};
  Task send{.device = 0, .lane = 2, .waits = {{.task = 1, .lag = 1}}};
  send.instructions.push_back(instruction("double", {number}, {number, sent}, [&failing](const KernelArgs& args) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (args.step->step == failing) throw DeviceError("injected");
    for (std::int64_t i = 0; i < kWidth; ++i) output(args, 1)[i] = output(args, 0)[i] *= 2;
  }));
  Task receive{.device = 1, .lane = 2, .waits = {{.task = 0}}};
  receive.instructions.push_back(instruction("add", {sent, w}, {w}, [](const KernelArgs& args) {
    for (std::int64_t i = 0; i < kWidth; ++i) output(args, 0)[i] += input(args, 0)[i];
  }));
  program->update.push_back(std::move(send));
  program->update.push_back(std::move(receive));
  return program;
}

TEST(Devices, UpdateTasksWaitForEachOther) {
  std::uint64_t failing = 100;
  Executor executor(chained_update_program(failing), {.thread_per_device = true});
  auto restart = [&] {
    write(executor, "number", V(kWidth, 1.0f));
    write(executor, "w", V(kWidth));
    executor.set_random_state(0, 0);
  };
  for (int call = 0; call < 20; ++call) {
    restart();
    executor.run({.device_iterations = 5});
    ASSERT_EQ(read(executor, "w"), V(kWidth, 2 + 4 + 8 + 16 + 32));
  }
  restart();
  failing = 3;
  EXPECT_THROW(executor.run({.device_iterations = 5}), DeviceError);  // the other one does not wait for ever
  EXPECT_EQ(read(executor, "w"), V(kWidth, 2 + 4 + 8));
  failing = 100;
  restart();
  executor.run({.device_iterations = 2});
  EXPECT_EQ(read(executor, "w"), V(kWidth, 2 + 4));
}

// Device 1 moves x in and y out, device 0 computes y = x * w and, in training, w += 1.
std::shared_ptr<Program> overlapped_program(bool training) {
  auto program = std::make_shared<Program>();
  program->training = training;
  program->inputs = {{"x", tensor_type()}};
  program->outputs = {{"y", tensor_type()}};
  program->devices = {{.variable_bytes = kSpace}, {}};
  program->lanes = {{.device = 0, .depth = 3, .slot_bytes = 2 * kSpace}};
  BufferRef x = buffer(Arena::kSlots, 0, 0), y = buffer(Arena::kSlots, 0, 1), w = buffer(Arena::kVariables, 0, 0);
  program->variables.push_back({.name = "w", .type = tensor_type(), .places = {w}, .initial = 1});
  program->step.push_back(
      {.name = "load", .device = 1, .inputs = {{.input = 0, .to = x}}, .waits = {{.task = 2, .lag = 3}}});
  Task compute{.name = "compute", .device = 0, .waits = {{.task = 0}}};
  compute.instructions.push_back(instruction("multiply", {x, w}, {y}, [](const KernelArgs& args) {
    for (std::int64_t i = 0; i < kWidth; ++i) output(args, 0)[i] = input(args, 0)[i] * input(args, 1)[i];
  }));
  program->step.push_back(std::move(compute));
  program->step.push_back(
      {.name = "store", .device = 1, .outputs = {{.output = 0, .from = y}}, .waits = {{.task = 1}}});
  if (training) {
    program->update.emplace_back().instructions.push_back(instruction("add", {w}, {w}, [](const KernelArgs& args) {
      for (std::int64_t i = 0; i < kWidth; ++i) output(args, 0)[i] += 1;
    }));
  }
  return program;
}

TEST(Devices, OneMayOnlyMoveInputsAndOutputs) {
  for (bool training : {false, true}) {
    Executor executor(overlapped_program(training), {.thread_per_device = !training});
    V x = chain_inputs(10), y = run_all(executor, x, 10);
    for (std::size_t i = 0; i < y.size(); ++i) {
      float w = training ? 1 + static_cast<float>(i / kWidth) : 1;
      ASSERT_EQ(y[i], x[i] * w) << "element " << i << (training ? " in training" : "");
    }
  }
}

TEST(Devices, UseEverySlotOfALaneInTurn) {
  std::mutex mutex;
  std::map<std::string, std::vector<const void*>> seen;
  auto program = pipeline_program({.devices = {0, 1}, .accumulation = 12});
  std::int64_t depth = program->lanes[0].depth;
  for (Task& task : program->step) {
    Instruction& first = task.instructions.front();
    auto inner = first.kernel;
    std::string name = task.name;
    first = instruction("spy", first.inputs, first.outputs, [&, inner, name](const KernelArgs& args) {
      {
        std::lock_guard lock(mutex);
        seen[name].push_back(args.inputs[name.starts_with("backward") ? 1 : 0]);  // x, in the lane of the stage
      }
      inner->run(args);
    });
  }
  Executor executor(program);
  run_all(executor, chain_inputs(24), 2);
  ASSERT_EQ(seen["forward of stage 0"].size(), 24u);
  EXPECT_EQ(seen["forward of stage 0"], seen["backward of stage 0"]);  // finds what its forward left
  std::set<const void*> distinct(seen["forward of stage 0"].begin(), seen["forward of stage 0"].end());
  EXPECT_EQ(static_cast<std::int64_t>(distinct.size()), depth);
  for (std::size_t m = 0; m + static_cast<std::size_t>(depth) < 24; ++m) {
    EXPECT_EQ(seen["forward of stage 0"][m], seen["forward of stage 0"][m + static_cast<std::size_t>(depth)]);
  }
}

TEST(Devices, WorkAtTheSameTime) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "needs two cpus";
  // Stage 1 holds micro-batch 0 until stage 0 has begun micro-batch 1: a serial executor would never get there.
  std::mutex mutex;
  std::condition_variable begun;
  bool has_begun = false, was_parallel = false;
  PipelineSpec spec{.devices = {0, 1}, .training = false};
  spec.hook = [&](const std::string& what, const StepContext& context) {
    std::unique_lock lock(mutex);
    if (what == "forward 0" && context.step == 1) {
      has_begun = true;
      begun.notify_all();
    }
    if (what == "forward 1" && context.step == 0) {
      was_parallel = begun.wait_for(lock, std::chrono::seconds(20), [&] { return has_begun; });
    }
  };
  Executor executor(pipeline_program(spec));
  run_all(executor, chain_inputs(2), 2);
  EXPECT_TRUE(was_parallel);
}

TEST(Devices, GiveTheSameInTurns) {
  for (std::size_t replicas : {1, 2}) {
    PipelineSpec spec{.devices = {0, 1, 2}, .takes_turns = true, .accumulation = 4, .replicas = replicas};
    V x = chain_inputs(static_cast<std::int64_t>(12 * replicas));
    for (bool thread_per_device : {false, true}) {
      Executor executor(pipeline_program(spec), {.thread_per_device = thread_per_device});
      EXPECT_EQ(run_all(executor, x, 3), PlainChain(spec).run(x, 3));
    }
  }
}

TEST(Devices, TellHowTheySpentTheirTime) {
  PipelineSpec spec{.devices = {0, 1}, .accumulation = 3, .replicas = 2};
  spec.hook = [](const std::string&, const StepContext&) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  Executor executor(pipeline_program(spec));
  run_all(executor, chain_inputs(12), 2);
  std::vector<DeviceTime> times = executor.times();
  ASSERT_EQ(times.size(), 4u);
  for (const DeviceTime& time : times) {
    double busy = 0;
    for (const auto& task : time.tasks) {
      bool is_update = task.task.starts_with("update");
      EXPECT_EQ(task.runs, is_update ? 2 : 6) << task.task;
      EXPECT_GE(task.seconds, 0.001 * static_cast<double>(task.runs));
      busy += task.seconds;
    }
    EXPECT_GT(time.total, 0);
    EXPECT_GT(time.waiting, 0);
    EXPECT_LE(busy + time.waiting, time.total * 1.0001);
  }
  EXPECT_EQ(times[3].replica, 1u);
  EXPECT_EQ(times[3].device, 1u);
  EXPECT_EQ(times[2].tasks[0].task, "forward of stage 0");

  Executor alone(pipeline_program({.devices = {0}}));
  run_all(alone, chain_inputs(2), 2);
  EXPECT_EQ(alone.times().at(0).waiting, 0);
}

// Exit code of a child that does the work.
int in_a_fork(const std::function<void()>& work) {
  pid_t child = fork();
  if (child == 0) {
    alarm(20);  // not to hang with the test
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(Devices, AForkCanReadAndDestroyButNotRun) {
  PipelineSpec spec{.devices = {0, 1}, .accumulation = 3};
  auto executor = std::make_unique<Executor>(pipeline_program(spec));
  V before = read(*executor, "w0");
  EXPECT_EQ(in_a_fork([&] {
              if (read(*executor, "w0") != before) _exit(2);
              try {
                run_all(*executor, chain_inputs(3), 1);
                _exit(3);
              } catch (const UserError&) {
              }
              executor.reset();
            }),
            0);
  run_all(*executor, chain_inputs(3), 1);  // nothing has happened to the parent
}

TEST(Devices, AForkCanDestroyATeam) {
  auto executor = std::make_unique<Executor>(pipeline_program({.devices = {0}}), ExecutorOptions{.num_threads = 2});
  EXPECT_EQ(in_a_fork([&] { executor.reset(); }), 0);
}

TEST(Devices, WithoutTasksHaveNoWorker) {
  PipelineSpec spec{.devices = {2}};
  Executor executor(pipeline_program(spec));
  V x = chain_inputs(3);
  EXPECT_EQ(run_all(executor, x, 3), PlainChain(spec).run(x, 3));
  EXPECT_EQ(executor.times().size(), 1u);
}

}  // namespace
}  // namespace aspen::testing
