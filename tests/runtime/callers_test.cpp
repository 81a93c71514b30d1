// One executor called by many threads, and many executors at once.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "aspen/base/error.h"
#include "aspen/runtime/call_queue.h"
#include "pipeline_program.h"

namespace aspen::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kCallers = 8;

void in_threads(const std::function<void(std::size_t)>& work) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kCallers; ++i) threads.emplace_back([&, i] { work(i); });
  for (std::thread& thread : threads) thread.join();
}

std::vector<PipelineSpec> specs() {
  return {{.devices = {0}, .accumulation = 2},
          {.devices = {0, 1}, .accumulation = 3},
          {.devices = {0, 1, 2}, .takes_turns = true, .accumulation = 2},
          {.devices = {0, 1}, .accumulation = 2, .replicas = 2}};
}

TEST(Callers, OfOneExecutorTakeTurns) {
  for (PipelineSpec spec : specs()) {
    spec.training = false;  // results then do not depend on who came first
    spec.accumulation = 1;
    Executor executor(pipeline_program(spec));
    in_threads([&](std::size_t caller) {
      V x = chain_inputs(4 * static_cast<std::int64_t>(spec.replicas), static_cast<int>(caller));
      V expected = PlainChain(spec).run(x, 4), w = read(executor, "w0");
      for (int call = 0; call < 25; ++call) {
        EXPECT_EQ(run_all(executor, x, 4), expected) << "caller " << caller << ", call " << call;
        write(executor, "w0", w);
        EXPECT_EQ(read(executor, "w0"), w);
        executor.times();
      }
    });
    EXPECT_EQ(executor.step(), kCallers * 25 * 4);
  }
}

// All train with the same batch: the order of the calls does not show, only whether each was whole.
TEST(Callers, TrainOneModelTogether) {
  for (const PipelineSpec& spec : specs()) {
    Executor executor(pipeline_program(spec));
    V x = chain_inputs(spec.accumulation * static_cast<std::int64_t>(spec.replicas));
    in_threads([&](std::size_t) {
      for (int call = 0; call < 10; ++call) {
        run_all(executor, x, 1);
        read(executor, "w0");
      }
    });
    PlainChain plain(spec);
    for (std::size_t call = 0; call < kCallers * 10; ++call) plain.run(x, 1);
    for (std::size_t s = 0; s < spec.devices.size(); ++s) {
      EXPECT_EQ(read(executor, fmt::format("w{}", s)), plain.weight(0, s));
    }
  }
}

TEST(Callers, OfDifferentExecutorsRunAtTheSameTime) {
  for (const PipelineSpec& spec : specs()) {
    V x = chain_inputs(5 * spec.accumulation * static_cast<std::int64_t>(spec.replicas));
    V expected = PlainChain(spec).run(x, 5);
    in_threads([&](std::size_t) {
      for (int round = 0; round < 3; ++round) {
        Executor executor(pipeline_program(spec));
        EXPECT_EQ(run_all(executor, x, 5), expected);
      }
    });
  }
  // Each run ends only when the others have begun.
  std::atomic<std::size_t> begun{0};
  std::atomic<bool> were_together{true};
  PipelineSpec spec{.devices = {0}, .training = false};
  spec.hook = [&](const std::string&, const StepContext&) {
    ++begun;
    auto end = std::chrono::steady_clock::now() + 20s;
    while (begun < kCallers && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    if (begun < kCallers) were_together = false;
  };
  in_threads([&](std::size_t) {
    Executor executor(pipeline_program(spec));
    run_all(executor, chain_inputs(1), 1);
  });
  EXPECT_TRUE(were_together);
}

TEST(Callers, ShareAProgramBetweenExecutors) {
  PipelineSpec spec{.devices = {0, 1}, .accumulation = 2};
  auto program = pipeline_program(spec);
  V x = chain_inputs(6);
  in_threads([&](std::size_t) {
    Executor executor(program);
    EXPECT_EQ(run_all(executor, x, 3), PlainChain(spec).run(x, 3));
  });
}

TEST(Callers, AreStoppedWhileTheyWaitForOthers) {
  for (const std::vector<std::size_t>& devices : {std::vector<std::size_t>{0}, {0, 1}}) {
    std::atomic<bool> is_running{false}, may_end{false};
    PipelineSpec spec{.devices = devices, .training = false};
    spec.hook = [&](const std::string& what, const StepContext&) {
      if (what != "forward 0") return;
      is_running = true;
      while (!may_end) std::this_thread::yield();
    };
    Executor executor(pipeline_program(spec));
    V x = chain_inputs(1), y(kWidth);
    std::thread first([&] { run_all(executor, x, 1); });
    while (!is_running) std::this_thread::yield();
    RunRequest request{.inputs = {x.data()}, .outputs = {{.data = y.data()}}, .should_stop = [] { return true; }};
    EXPECT_THROW(executor.run(request), Interrupted);
    may_end = true;
    first.join();
    EXPECT_EQ(executor.step(), 1u);
    request.should_stop = nullptr;
    executor.run(request);  // the one that left has taken nobody's turn
    EXPECT_EQ(executor.step(), 2u);
  }
}

// They would wait for themselves.
TEST(Callers, AreRefusedFromWithinTheirOwnRun) {
  for (const std::vector<std::size_t>& devices : {std::vector<std::size_t>{0}, {0, 1}}) {
    std::unique_ptr<Executor> executor;
    PipelineSpec spec{.devices = devices, .training = false};
    spec.hook = [&](const std::string& what, const StepContext&) {
      if (what == "forward 0") read(*executor, "w0");
    };
    executor = std::make_unique<Executor>(pipeline_program(spec));
    try {
      run_all(*executor, chain_inputs(1), 1);
      FAIL() << "no error";
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("from within its own run"), std::string::npos) << error.what();
    }
    read(*executor, "w0");
  }
}

// A run may use another executor: one whose ops on the host run a model of their own.
TEST(Callers, MayCallAnotherExecutorFromWithinARun) {
  Executor inner(pipeline_program({.devices = {0}, .training = false}));
  PipelineSpec spec{.devices = {0, 1}, .training = false};
  spec.hook = [&](const std::string&, const StepContext&) { run_all(inner, chain_inputs(1), 1); };
  Executor outer(pipeline_program(spec));
  run_all(outer, chain_inputs(4), 4);
  EXPECT_EQ(inner.step(), 8u);
}

TEST(Callers, AreRefusedFromWithinARunThatTheirRunMade) {
  std::unique_ptr<Executor> outer;
  PipelineSpec spec{.devices = {0}, .training = false};
  spec.hook = [&](const std::string&, const StepContext&) { read(*outer, "w0"); };
  Executor inner(pipeline_program(spec));
  spec.hook = [&](const std::string&, const StepContext&) { run_all(inner, chain_inputs(1), 1); };
  outer = std::make_unique<Executor>(pipeline_program(spec));
  EXPECT_THROW(run_all(*outer, chain_inputs(1), 1), UserError);
}

TEST(CallQueue, ServesInTheOrderOfArrival) {
  CallQueue queue;
  std::vector<int> served;
  std::atomic<int> waiting{0};
  std::vector<std::thread> threads;
  {
    CallQueue::Turn turn(queue);
    for (int i = 0; i < 5; ++i) {
      threads.emplace_back([&, i] {
        ++waiting;
        CallQueue::Turn own(queue);
        served.push_back(i);
      });
      while (waiting != i + 1) std::this_thread::yield();
      std::this_thread::sleep_for(20ms);  // into the queue
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, (std::vector<int>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace aspen::testing
