// Errors and interruptions on many devices: all stop, nobody hangs, variables are consistent, the next run is right.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "aspen/base/error.h"
#include "pipeline_program.h"

namespace aspen::testing {
namespace {

// Set before a run, read by the workers during it.
struct Fault {
  std::string what;  // "backward 2"; empty: no fault
  std::uint64_t step = 0;
  std::size_t replica = 0;
  bool on_every_replica = false;

  void operator()(const std::string& now, const StepContext& context) const {
    if (now != what || context.step != step) return;
    if (on_every_replica || context.replica == replica) throw DeviceError("injected");
  }
};

// A program with a fault that can be moved, and what it should have computed.
class FaultyChain {
 public:
  FaultyChain(PipelineSpec spec, bool thread_per_device) : spec_(std::move(spec)) {
    spec_.hook = [this](const std::string& what, const StepContext& context) { fault_(what, context); };
    executor_ =
        std::make_unique<Executor>(pipeline_program(spec_), ExecutorOptions{.thread_per_device = thread_per_device});
    for (std::size_t s = 0; s < spec_.devices.size(); ++s) {
      for (const char* op : {"forward", "sum", "backward", "update"}) {
        if (op != std::string("backward") || s != 0) places_.push_back(op + fmt::format(" {}", s));
      }
    }
  }

  void inject(std::mt19937& random) {
    std::int64_t iterations = 3;
    restore();
    fault_ = {.what = places_[random() % places_.size()],
              .step = random() % static_cast<std::uint64_t>(iterations * spec_.accumulation),
              .replica = random() % spec_.replicas,
              .on_every_replica = random() % 4 == 0};
    bool in_update = fault_.what.starts_with("update");
    auto accumulation = static_cast<std::uint64_t>(spec_.accumulation);
    if (in_update) fault_.step = fault_.step / accumulation * accumulation + accumulation - 1;
    SCOPED_TRACE(fmt::format("{} at step {} of replica {}", fault_.what, fault_.step, fault_.replica));
    V x = inputs(iterations);
    EXPECT_THROW(run_all(*executor_, x, iterations), DeviceError);
    check_weights(x, static_cast<std::int64_t>(fault_.step / accumulation), in_update);
    fault_ = {};
  }

  void check_works() {
    restore();
    PlainChain plain(spec_);
    V x = inputs(2);
    ASSERT_EQ(run_all(*executor_, x, 2), plain.run(x, 2));
    for (std::size_t s = 0; s < spec_.devices.size(); ++s) {
      ASSERT_EQ(read(*executor_, fmt::format("w{}", s)), plain.weight(0, s));
      ASSERT_EQ(read(*executor_, fmt::format("a{}", s)), V(kWidth));
    }
  }

 private:
  V inputs(std::int64_t iterations) const {
    return chain_inputs(iterations * spec_.accumulation * static_cast<std::int64_t>(spec_.replicas));
  }

  void restore() {
    PlainChain fresh(spec_);
    for (std::size_t s = 0; s < spec_.devices.size(); ++s) write(*executor_, fmt::format("w{}", s), fresh.weight(0, s));
    executor_->set_random_state(0, 0);
  }

  // Every stage has seen the same number of updates, unless the fault was inside one.
  void check_weights(const V& x, std::int64_t finished_updates, bool in_update) {
    PlainChain before(spec_), after(spec_);
    if (finished_updates > 0) before.run(x, finished_updates);
    after.run(x, finished_updates + 1);
    for (std::size_t s = 0; s < spec_.devices.size(); ++s) {
      V w = read(*executor_, fmt::format("w{}", s));
      EXPECT_TRUE(w == before.weight(0, s) || (in_update && w == after.weight(0, s))) << "stage " << s;
      EXPECT_EQ(read(*executor_, fmt::format("a{}", s)), V(kWidth));
    }
  }

  PipelineSpec spec_;
  Fault fault_;
  std::vector<std::string> places_;
  std::unique_ptr<Executor> executor_;
};

TEST(Faults, ThousandOfThemNeverHangAndLeaveAUsableExecutor) {
  std::mt19937 random(20);
  std::vector<std::pair<PipelineSpec, int>> cases = {
      {{.devices = {0}, .accumulation = 3}, 100},
      {{.devices = {0, 1}, .accumulation = 5}, 250},
      {{.devices = {0, 1, 2, 3}, .accumulation = 4}, 200},
      {{.devices = {0, 1, 2, 3}, .takes_turns = true, .accumulation = 4}, 50},
      {{.devices = {0, 1, 0}, .accumulation = 2}, 100},
      {{.devices = {0, 1}, .accumulation = 3, .replicas = 3}, 100},
      {{.devices = {0, 1}, .accumulation = 3, .replicas = 4}, 100},
      {{.devices = {0}, .accumulation = 1, .replicas = 4}, 70},
      {{.devices = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, .accumulation = 3}, 30}};
  int total = 0;
  for (auto& [spec, count] : cases) {
    for (bool thread_per_device : {false, true}) {
      FaultyChain chain(spec, thread_per_device);
      for (int i = 0; i < count / 2; ++i, ++total) {
        chain.inject(random);
        if (i % 5 == 0) chain.check_works();
        if (HasFailure()) return;
      }
      chain.check_works();
    }
  }
  EXPECT_EQ(total, 1000);
}

std::string message_of(const PipelineSpec& spec, Fault fault, ExecutorOptions options = {}) {
  PipelineSpec faulty = spec;
  faulty.hook = fault;
  Executor executor(pipeline_program(faulty), options);
  try {
    run_all(executor, chain_inputs(8 * static_cast<std::int64_t>(spec.replicas)), 8 / spec.accumulation);
  } catch (const DeviceError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Faults, NameOpPlaceDeviceStageMicroBatchAndReplica) {
  // Whichever threads run the devices; on one thread they all run in turn.
  for (ExecutorOptions options : {ExecutorOptions{}, {.num_threads = 1}, {.thread_per_device = true}}) {
    PipelineSpec spec{.devices = {0, 1}, .accumulation = 4};
    EXPECT_EQ(message_of(spec, {.what = "backward 1", .step = 7}, options),
              "injected\n  in op backward, captured at model.py:3, on device 1, stage 1, micro-batch 7");
    EXPECT_EQ(message_of(spec, {.what = "update 0", .step = 3}, options),
              "injected\n  in op update, captured at model.py:3, on device 0, in the update after micro-batch 3");
    spec.replicas = 3;
    EXPECT_EQ(message_of(spec, {.what = "forward 0", .step = 2, .replica = 2}, options),
              "injected\n  in op forward, captured at model.py:3, on device 0, stage 0, micro-batch 2, replica 2");
  }
}

TEST(Faults, InAnUpdateLeaveReplicasEqual) {
  Fault fault{.what = "update 1", .step = 0, .replica = 2};
  PipelineSpec spec{.devices = {0, 1}, .replicas = 4, .weight_grouping = {.returns_all = true}, .hook = fault};
  for (ExecutorOptions options : {ExecutorOptions{}, {.num_threads = 1}, {.thread_per_device = true}}) {
    Executor executor(pipeline_program(spec), options);
    EXPECT_THROW(run_all(executor, chain_inputs(4), 1), DeviceError);
    for (const char* name : {"w0", "w1"}) {
      V all = read(executor, name, 4 * kWidth);
      V first(all.begin(), all.begin() + kWidth);
      for (int r = 1; r < 4; ++r) {
        EXPECT_EQ(V(all.begin() + r * kWidth, all.begin() + (r + 1) * kWidth), first) << name << " of replica " << r;
      }
    }
  }
}

void expect_interruption_between_updates(ExecutorOptions options) {
  PipelineSpec spec{.devices = {0, 1, 2}, .accumulation = 2, .replicas = 2};
  std::atomic<int> tasks_run = 0;
  spec.hook = [&](const std::string&, const StepContext&) {
    ++tasks_run;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  };
  Executor executor(pipeline_program(spec), options);
  std::int64_t iterations = 100000;
  V x = chain_inputs(iterations * 2 * 2), y(kWidth * 2);
  int asked = 0;
  RunRequest request{.device_iterations = iterations,
                     .gradient_accumulation = 2,
                     .inputs = {x.data()},
                     .outputs = {{.data = y.data(), .mode = OutputMode::kFinal}},
                     // By then some updates are done, however slow the machine is.
                     .should_stop = [&] { return ++asked >= 3 && tasks_run > 100; }};
  std::thread::id caller = std::this_thread::get_id(), asker;
  auto counted = request.should_stop;
  request.should_stop = [&] {
    asker = std::this_thread::get_id();
    return counted();
  };
  EXPECT_THROW(executor.run(request), Interrupted);
  EXPECT_GE(asked, 3);
  EXPECT_EQ(asker, caller);
  // Which update was the last does not matter, but all stages must agree on it.
  auto most = static_cast<std::int64_t>(executor.step() / 2);
  ASSERT_GT(most, 0);
  ASSERT_LT(most, iterations);
  PlainChain plain(spec), one_less(spec);
  plain.run(x, most);
  one_less.run(x, most - 1);
  bool is_plain = read(executor, "w0") == plain.weight(0, 0);
  const PlainChain& expected = is_plain ? plain : one_less;
  for (std::size_t s = 0; s < 3; ++s) EXPECT_EQ(read(executor, fmt::format("w{}", s)), expected.weight(0, s));
}

TEST(Faults, InterruptionStopsAllDevicesBetweenUpdates) {
  expect_interruption_between_updates({});
  expect_interruption_between_updates({.num_threads = 1});
  expect_interruption_between_updates({.thread_per_device = true});
}

TEST(Faults, AnErrorOfTheQuestionWhetherToStopStopsTheRun) {
  PipelineSpec spec{.devices = {0, 1}};
  spec.hook = [](const std::string&, const StepContext&) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  Executor executor(pipeline_program(spec));
  V x = chain_inputs(1000), y(kWidth);
  RunRequest request{.device_iterations = 1000,
                     .inputs = {x.data()},
                     .outputs = {{.data = y.data(), .mode = OutputMode::kFinal}},
                     .should_stop = []() -> bool { throw UserError("no answer"); }};
  EXPECT_THROW(executor.run(request), UserError);
}

TEST(Faults, WhatIsNotAnExceptionPassesThrough) {
  PipelineSpec spec{.devices = {0, 1}};
  spec.hook = [](const std::string& what, const StepContext&) {
    if (what == "forward 1") throw 5;
  };
  for (bool thread_per_device : {false, true}) {
    Executor executor(pipeline_program(spec), {.thread_per_device = thread_per_device});
    EXPECT_THROW(run_all(executor, chain_inputs(2), 2), int);
  }
}

}  // namespace
}  // namespace aspen::testing
