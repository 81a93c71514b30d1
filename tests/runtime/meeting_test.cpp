// The meeting before a weight update: there is one, its work is shared, and afterwards nobody waits for more than it
// reads.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/runtime/rendezvous.h"
#include "pipeline_program.h"

namespace aspen::testing {
namespace {

using namespace std::chrono_literals;

void in_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) threads.emplace_back([&, i] { work(i); });
  for (std::thread& thread : threads) thread.join();
}

TEST(Rendezvous, DoesItsWorkOnceBeforeAnybodyGoesOn) {
  for (auto patience : {0us, 50us}) {
    constexpr std::size_t kThreads = 4, kPieces = 7;
    constexpr int kMeetings = 500;
    std::array<int, kPieces> done{};  // written by one thread at a time: the sanitizer would notice
    std::atomic<int> wrong{0};
    Rendezvous adding(kThreads, kPieces, [&](std::size_t piece) { ++done[piece]; }), comparing(kThreads);
    in_threads(kThreads, [&](std::size_t) {
      for (int meeting = 1; meeting <= kMeetings; ++meeting) {
        if (!adding.meet(patience).has_met) ++wrong;
        for (int times : done) wrong += times != meeting;
        if (!comparing.meet(patience).has_met) ++wrong;  // nobody adds while another one compares
      }
    });
    EXPECT_EQ(wrong, 0);
  }
}

// The first piece ends only when all others are done, by threads that came to the same meeting.
TEST(Rendezvous, SharesItsWorkBetweenThoseWhoCome) {
  std::atomic<int> others{0};
  std::atomic<bool> was_shared{false};
  Rendezvous rendezvous(3, 5, [&](std::size_t piece) {
    if (piece != 0) {
      ++others;
      return;
    }
    auto end = std::chrono::steady_clock::now() + 20s;
    while (others < 4 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    was_shared = others == 4;
  });
  in_threads(3, [&](std::size_t) { EXPECT_TRUE(rendezvous.meet().has_met); });
  EXPECT_TRUE(was_shared);
}

TEST(Rendezvous, CalledOffGivesAllTheSameAnswer) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> met{0}, work{0};
    Rendezvous rendezvous(3, 1, [&](std::size_t) { ++work; });
    in_threads(4, [&](std::size_t i) {
      if (i == 3) {
        rendezvous.call_off();
      } else {
        met += rendezvous.meet(i == 0 ? 50us : 0us).has_met;
      }
    });
    EXPECT_TRUE(met == 0 || met == 3) << met;
    EXPECT_EQ(work, met / 3);
    EXPECT_FALSE(rendezvous.meet().has_met);
    rendezvous.reset();
    in_threads(3, [&](std::size_t) { EXPECT_TRUE(rendezvous.meet().has_met); });
  }
}

BufferRef variable(std::size_t owner) {
  return {.arena = Arena::kVariables, .owner = owner, .offset = 0, .bytes = kBytes};
}

// y = w on device 1, where w is at home on device 0 and grows by 1 in every update; device 1 has a copy.
std::shared_ptr<Program> copied_program(std::function<void(const KernelArgs&)> step,
                                        std::function<void(const KernelArgs&)> update) {
  auto program = std::make_shared<Program>();
  program->training = true;
  program->replicas = 2;
  program->outputs = {{"y", tensor_type()}};
  program->devices = {{.variable_bytes = kSpace}, {.variable_bytes = kSpace, .scratch_bytes = kSpace}};
  program->lanes = {{.device = 0}, {.device = 1}};
  program->variables.push_back({.name = "w", .type = tensor_type(), .places = {variable(0), variable(1)}});
  BufferRef y{.arena = Arena::kScratch, .owner = 1, .bytes = kBytes};
  program->step.push_back({.device = 1, .lane = 1, .outputs = {{.output = 0, .from = y}}});
  program->step[0].instructions.push_back(instruction("copy", {variable(1)}, {y}, std::move(step)));
  program->update.emplace_back().instructions.push_back(
      instruction("add", {variable(0)}, {variable(0)}, std::move(update)));
  return program;
}

// The update of replica 1 ends only when replica 0 has begun its next step: a second meeting would never come about.
TEST(Updates, AreFollowedByStepsWithoutAnotherMeeting) {
  std::atomic<bool> has_begun{false}, was_ahead{false};
  auto step = [&](const KernelArgs& args) {
    if (args.step->replica == 0 && args.step->step == 1) has_begun = true;
    std::copy_n(input(args, 0), kWidth, output(args, 0));
  };
  auto update = [&](const KernelArgs& args) {
    if (args.step->replica == 1 && args.step->step == 0) {
      auto end = std::chrono::steady_clock::now() + 20s;
      while (!has_begun && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      was_ahead = has_begun.load();
    }
    for (std::int64_t i = 0; i < kWidth; ++i) output(args, 0)[i] += 1;
  };
  Executor executor(copied_program(step, update), {.thread_per_device = true});
  V y(3 * 2 * kWidth);
  executor.run({.device_iterations = 3, .outputs = {{.data = y.data()}}});
  EXPECT_TRUE(was_ahead);
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], static_cast<float>(i / (2 * kWidth))) << i;
}

// Who reads what an update writes waits for it, however long it takes.
TEST(Updates, AreAwaitedByWhoReadsThem) {
  auto step = [](const KernelArgs& args) { std::copy_n(input(args, 0), kWidth, output(args, 0)); };
  auto update = [](const KernelArgs& args) {
    std::this_thread::sleep_for(args.step->replica == 0 ? 3ms : 0ms);
    for (std::int64_t i = 0; i < kWidth; ++i) output(args, 0)[i] += 1;
  };
  Executor executor(copied_program(step, update), {.thread_per_device = true});
  V y(20 * 2 * kWidth);
  executor.run({.device_iterations = 20, .outputs = {{.data = y.data()}}});
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], static_cast<float>(i / (2 * kWidth))) << i;
}

// Shards of w are gathered into its home off the devices by device 0; steps of device 1 read it there.
TEST(Updates, AreGatheredBeforeOtherDevicesReadThemOffTheDevices) {
  auto program = copied_program([](const KernelArgs& args) { std::copy_n(input(args, 0), kWidth, output(args, 0)); },
                                [](const KernelArgs& args) {
                                  const StepContext& step = *args.step;
                                  std::this_thread::sleep_for(step.replica == 0 ? 2ms : 0ms);
                                  auto [first, last] = shard_of(kWidth, step.replica, step.num_replicas);
                                  for (std::int64_t i = first; i < last; ++i) output(args, 0)[i] += 1;
                                });
  BufferRef home{.arena = Arena::kHostVariables, .owner = 0, .bytes = kBytes};
  program->devices[0].host_variable_bytes = kSpace;
  program->variables[0].places = {home};
  program->variables[0].gathered = true;
  program->step[0].instructions[0].inputs = {home};
  program->update[0].instructions[0].inputs = program->update[0].instructions[0].outputs = {home};
  Executor executor(program, {.thread_per_device = true});
  V y(20 * 2 * kWidth);
  executor.run({.device_iterations = 20, .outputs = {{.data = y.data()}}});
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], static_cast<float>(i / (2 * kWidth))) << i;
}

}  // namespace
}  // namespace aspen::testing
