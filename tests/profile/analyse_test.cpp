#include "aspen/profile/analyse.h"

#include <gtest/gtest.h>

#include "aspen/profile/profile_check.h"
#include "aspen/profile/profile_json.h"
#include "tests/profile/example_profile.h"

namespace aspen::testing {
namespace {

using namespace profile;  // NOLINT: what these tests are about

// Two devices in a pipeline, two micro-batches, times by hand:
//
//   device 0   F0 F1 .  .  B0 .  B1 U
//   device 1   .  F0 B0 F1 B1 B1 .  U     one column is 10 ns; device 1's F and B are one task
Profile by_hand() {
  Profile profile;
  profile.run = {.execution = "pipelined", .training = true, .gradient_accumulation = 2, .micro_batch_size = 4};
  profile.workers = {{.device = 0, .crew = 0}, {.device = 1, .crew = 1}};
  profile.ops = {{.name = "f0", .task = 0, .flops = 100, .bytes_read = 10},
                 {.name = "f1", .task = 1, .flops = 100},
                 {.name = "b1", .pass = Pass::kBackward, .task = 1, .flops = 200},
                 {.name = "b0", .pass = Pass::kBackward, .task = 2, .flops = 200},
                 {.name = "u0", .pass = Pass::kUpdate, .task = 3},
                 {.name = "u1", .pass = Pass::kUpdate, .task = 4}};
  profile.tasks = {
      {.name = "forward of stage 0", .num_ops = 1},
      {.name = "stage 1", .device = 1, .stage = 1, .first_op = 1, .num_ops = 2},
      {.name = "backward of stage 0", .first_op = 3, .num_ops = 1},
      {.name = "update 0", .section = Section::kUpdate, .first_op = 4, .num_ops = 1},
      {.name = "update 1", .section = Section::kUpdate, .device = 1, .stage = 1, .first_op = 5, .num_ops = 1}};
  profile.waits = {{.task = 1, .on = 0}, {.task = 2, .on = 1}};
  profile.calls = {{.begin = 1000, .duration = 80, .samples = 8}};
  const auto block = [&](std::int64_t worker, BlockKind kind, std::int64_t task, std::int64_t micro_batch,
                         std::int64_t column) {
    profile.trace.blocks.push_back({.worker = worker,
                                    .call = 0,
                                    .kind = kind,
                                    .task = task,
                                    .micro_batch = micro_batch,
                                    .begin = 1000 + 10 * column,
                                    .duration = 10});
  };
  block(0, BlockKind::kForward, 0, 0, 0);
  block(0, BlockKind::kForward, 0, 1, 1);
  block(1, BlockKind::kForward, 1, 0, 1);
  block(1, BlockKind::kBackward, 1, 0, 2);
  block(1, BlockKind::kForward, 1, 1, 3);
  block(0, BlockKind::kBackward, 2, 0, 4);
  block(1, BlockKind::kBackward, 1, 1, 4);
  profile.trace.blocks.back().duration = 20;
  block(0, BlockKind::kBackward, 2, 1, 6);
  block(0, BlockKind::kUpdate, 3, 1, 7);
  block(1, BlockKind::kUpdate, 4, 1, 7);
  check(profile);
  return profile;
}

TEST(Analyse, CountsStepsSamplesAndFlops) {
  Profile profile = by_hand();
  profile.machine.all.flops_per_second = 30e9;
  const Analysis analysis = analyse(profile);
  EXPECT_EQ(analysis.calls, 1);
  EXPECT_EQ(analysis.iteration, 80);
  EXPECT_DOUBLE_EQ(analysis.samples_per_second, 8 / 80e-9);
  EXPECT_DOUBLE_EQ(analysis.flops_per_iteration, 2 * 600);
  EXPECT_DOUBLE_EQ(analysis.flops_per_second, 15e9);
  EXPECT_DOUBLE_EQ(analysis.share_of_peak, 0.5);
}

TEST(Analyse, LeavesTheFirstCallOut) {
  Profile profile = by_hand();
  profile.calls = {{.begin = 0, .duration = 1000, .samples = 8},
                   {.begin = 1010, .duration = 80, .loading = 6, .samples = 8},
                   {.begin = 1100, .duration = 100, .loading = 4, .samples = 8}};
  profile.trace.blocks.clear();
  const Analysis analysis = analyse(profile);
  EXPECT_EQ(analysis.calls, 2);
  EXPECT_EQ(analysis.call_duration, 100);
  EXPECT_DOUBLE_EQ(analysis.samples_per_second, 16 / 200e-9);
  EXPECT_DOUBLE_EQ(analysis.host_share, 0.1);
  EXPECT_DOUBLE_EQ(analysis.loading_share, 0.05);
}

TEST(Analyse, TellsRampFromBubble) {
  const std::vector<WorkerShares> shares = shares_of_workers(by_hand());
  ASSERT_EQ(shares.size(), 2);
  EXPECT_DOUBLE_EQ(shares[0].busy, 5 / 8.0);
  EXPECT_DOUBLE_EQ(shares[0].bubble, 3 / 8.0);  // columns 2, 3 and 5
  EXPECT_DOUBLE_EQ(shares[0].ramp, 0);
  EXPECT_DOUBLE_EQ(shares[1].busy, 6 / 8.0);
  EXPECT_DOUBLE_EQ(shares[1].bubble, 0);
  EXPECT_DOUBLE_EQ(shares[1].ramp, 2 / 8.0);  // columns 0 and 6
}

TEST(Analyse, DoesNotBlameADeviceForItsThread) {
  Profile profile = by_hand();
  profile.workers[1].crew = 0;
  const std::vector<WorkerShares> shares = shares_of_workers(profile);
  EXPECT_DOUBLE_EQ(shares[0].shared, 3 / 8.0);  // columns 2, 3 and 5
  EXPECT_DOUBLE_EQ(shares[0].bubble, 0);
}

TEST(Analyse, TimesStagesByMicroBatch) {
  const std::vector<StageTime> stages = times_of_stages(by_hand());
  ASSERT_EQ(stages.size(), 2);
  EXPECT_EQ(stages[0].forward, 10);
  EXPECT_EQ(stages[0].backward, 10);
  EXPECT_EQ(stages[0].update, 10);
  EXPECT_EQ(stages[1].forward, 10);
  EXPECT_EQ(stages[1].backward, 15);
}

TEST(Analyse, FollowsTheCriticalPathBack) {
  const Profile profile = by_hand();
  std::string path;
  for (const std::int64_t row : critical_path(profile)) {
    const Block& block = profile.trace.blocks[static_cast<std::size_t>(row)];
    path += std::string("FBU").substr(static_cast<std::size_t>(block.kind), 1) + std::to_string(block.micro_batch) +
            "@" + std::to_string(block.worker) + " ";
  }
  EXPECT_EQ(path, "F0@0 F0@1 B0@1 F1@1 B1@1 B1@0 U1@1 ");
}

TEST(Analyse, LimitsAreThoseOfTheThreadsOfADevice) {
  Profile profile = by_hand();
  profile.machine = {.num_cpus = 4, .thread = {1e9, 1e9}, .all = {3e9, 2e9}};
  EXPECT_EQ(limits_of_ops(profile)[0], 100);  // 100 flops at 1 a nanosecond
  profile.workers[0].num_threads = 4;
  EXPECT_EQ(limits_of_ops(profile)[0], 33);  // all cpus together do no more than 3
  profile.ops[0].bytes_read = 400;
  EXPECT_EQ(limits_of_ops(profile)[0], 200);  // at 2 bytes a nanosecond
  profile.machine.thread = profile.machine.all = {};
  EXPECT_EQ(limits_of_ops(profile)[0], 0);
}

TEST(Analyse, FindsThePeakOfEachDevice) {
  Profile profile = by_hand();
  profile.memory.regions = {{.name = "all", .device = 0, .bytes = 1000},
                            {.name = "host", .device = 0, .on_host = true, .bytes = 70}};
  profile.memory.buffers = {
      {.name = "weight", .kind = BufferKind::kWeight, .bytes = 100},
      {.name = "stash", .kind = BufferKind::kStash, .bytes = 10, .copies = 3, .stride = 10, .first = 0, .last = 3},
      {.name = "scratch", .bytes = 5, .first = 3, .last = 3},
      {.name = "offloaded", .on_host = true, .bytes = 70},
      {.name = "other device", .device = 1, .bytes = 1, .first = 2, .last = 2},
  };
  const std::vector<DeviceUse> uses = use_of_memory(profile);
  ASSERT_EQ(uses.size(), 2);
  EXPECT_EQ(uses[0].always_live, 120);
  EXPECT_EQ(uses[0].peak, 135);
  EXPECT_EQ(uses[0].peak_op, 3);
  EXPECT_EQ(uses[0].reserved, 1000);
  EXPECT_EQ(uses[0].reserved_host, 70);
  EXPECT_EQ(uses[1].peak, 1);
  EXPECT_EQ(uses[1].peak_op, 2);
}

TEST(Analyse, IsThereForAProfileWithoutACall) {
  const Analysis analysis = analyse(Profile{});
  EXPECT_EQ(analysis.iteration, 0);
  EXPECT_EQ(analysis.samples_per_second, 0);
  EXPECT_TRUE(analysis.critical_path.empty());
}

TEST(ExampleProfile, IsAProfile) {
  for (const bool training : {true, false}) {
    const Profile profile =
        example_profile({.training = training, .replicas = 2, .loading = 0.2, .calls_host = true, .offloads = true});
    EXPECT_NO_THROW(static_cast<void>(from_json(to_json(profile))));
    const Analysis analysis = analyse(profile);
    for (const WorkerShares& shares : analysis.workers) {
      EXPECT_NEAR(shares.busy + shares.transfer + shares.ramp + shares.bubble + shares.shared, 1, 1e-9);
    }
  }
}

}  // namespace
}  // namespace aspen::testing
