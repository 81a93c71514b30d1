// The fixed order of tasks: the shape of a pipeline, and no order for what cannot be ordered.
#include "aspen/runtime/task_order.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "aspen/base/error.h"
#include "pipeline_program.h"

namespace aspen::testing {
namespace {

// "F0 F1 B0 ..." for one device; the last stage's combined task is F.
std::string text(const Program& program, const std::vector<TaskRun>& runs) {
  std::string result;
  for (const TaskRun& run : runs) {
    bool is_forward = program.step[run.task].name.starts_with("forward");
    result += fmt::format("{}{}{}", result.empty() ? "" : " ", is_forward ? "F" : "B", run.round);
  }
  return result;
}

TaskOrder order(const Program& program, std::int64_t rounds) {
  return order_tasks(program.step, program.devices.size(), rounds);
}

// When the last task ends if every device follows its order and tasks take as long as they cost.
double duration(const Program& program, const TaskOrder& order) {
  std::vector<std::vector<double>> ends(program.step.size());
  std::vector<std::size_t> next(order.size());
  std::vector<double> free(order.size());
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::size_t d = 0; d < order.size(); ++d) {
      if (next[d] == order[d].size()) continue;
      const TaskRun& run = order[d][next[d]];
      double start = free[d];
      bool is_ready = true;
      for (const Wait& wait : program.step[run.task].waits) {
        std::int64_t round = run.round - wait.lag;
        if (round < 0) continue;
        is_ready = is_ready && static_cast<std::int64_t>(ends[wait.task].size()) > round;
        if (is_ready) start = std::max(start, ends[wait.task][static_cast<std::size_t>(round)]);
      }
      if (!is_ready) continue;
      free[d] = start + program.step[run.task].cost;
      ends[run.task].push_back(free[d]);
      ++next[d];
      has_moved = true;
    }
  }
  for (std::size_t d = 0; d < order.size(); ++d) EXPECT_EQ(next[d], order[d].size()) << "device " << d << " is stuck";
  return *std::max_element(free.begin(), free.end());
}

TEST(TaskOrder, AlternatesForwardAndBackward) {
  auto program = pipeline_program({.devices = {0, 1, 2, 3}, .accumulation = 6});
  TaskOrder found = order(*program, 6);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(text(*program, found[3]), "F0 F1 F2 F3 F4 F5");
  EXPECT_EQ(text(*program, found[2]), "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5");
  EXPECT_EQ(text(*program, found[0]), "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5");
}

TEST(TaskOrder, WastesNoMoreThanTheRamps) {
  // A forward costs 1, a backward 2: the first micro-batch takes 3 per stage, then one is finished every 3.
  for (std::size_t stages : {1, 2, 4, 16}) {
    PipelineSpec spec{.accumulation = 40};
    for (std::size_t s = 0; s < stages; ++s) spec.devices.push_back(s);
    auto program = pipeline_program(spec);
    EXPECT_EQ(duration(*program, order(*program, 40)), 3.0 * static_cast<double>(stages + 39)) << stages << " stages";
    spec.training = false;
    program = pipeline_program(spec);
    EXPECT_EQ(duration(*program, order(*program, 40)), static_cast<double>(stages + 39)) << stages << " stages";
  }
}

TEST(TaskOrder, NeverHasMoreUnderWayThanALaneHolds) {
  for (const auto& devices :
       {std::vector<std::size_t>{0, 1}, {0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 0}, {0, 1, 2, 0, 1, 2}}) {
    auto program = pipeline_program({.devices = devices, .accumulation = 20});
    TaskOrder found = order(*program, 20);
    for (std::size_t stage = 0; stage + 1 < devices.size(); ++stage) {
      std::int64_t under_way = 0;
      for (const TaskRun& run : found[devices[stage]]) {
        if (program->step[run.task].lane != stage) continue;
        under_way += program->step[run.task].name.starts_with("forward") ? 1 : -1;
        EXPECT_LE(under_way, program->lanes[stage].depth);
      }
      EXPECT_EQ(under_way, 0);
    }
  }
}

TEST(TaskOrder, PrefersTheOldestMicroBatchThenTheLaterTask) {
  // Both tasks are ready for every round; the second is later in the program.
  std::vector<Task> tasks(2);
  EXPECT_EQ(order_tasks(tasks, 1, 2)[0], (std::vector<TaskRun>{{1, 0}, {0, 0}, {1, 1}, {0, 1}}));
}

// Devices 0 and 1 share a crew: it finishes a micro-batch before it begins the next, and leaves none waiting for ever.
TEST(TaskOrder, InterleavesTheDevicesOfACrew) {
  auto program = pipeline_program({.devices = {0, 1, 2}, .accumulation = 4});
  TaskOrder alone = order_tasks(program->step, {0, 0, 0}, 2);
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0],
            (std::vector<TaskRun>{{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}, {0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}}));
  TaskOrder two = order_tasks(program->step, {0, 0, 1}, 4);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].size(), 4u * 4u);
  EXPECT_EQ(two[1].size(), 4u);
  std::vector<std::int64_t> next(program->step.size());
  for (const auto& runs : two) {
    for (const TaskRun& run : runs) EXPECT_EQ(run.round, next[run.task]++);
  }
}

TEST(TaskOrder, RunsOneTaskAfterTheOtherWhenALaneHoldsOneMicroBatch) {
  std::vector<Task> tasks(2);
  tasks[1].device = 1;
  tasks[1].waits = {{.task = 0}};
  tasks[0].waits = {{.task = 1, .lag = 1}};
  TaskOrder found = order_tasks(tasks, 2, 3);
  EXPECT_EQ(found[0], (std::vector<TaskRun>{{0, 0}, {0, 1}, {0, 2}}));
  EXPECT_EQ(found[1], (std::vector<TaskRun>{{1, 0}, {1, 1}, {1, 2}}));
}

TEST(TaskOrder, KnowsWhichDevicesTakeTurns) {
  EXPECT_TRUE(take_turns(pipeline_program({.devices = {0, 1, 2}, .takes_turns = true})->step));
  EXPECT_TRUE(take_turns(pipeline_program({.devices = {0, 1}, .training = false, .takes_turns = true})->step));
  EXPECT_FALSE(take_turns(pipeline_program({.devices = {0, 1, 2}})->step));
  EXPECT_FALSE(take_turns(pipeline_program({.devices = {0, 1}, .training = false})->step));

  // Two devices that feed a third work at the same time even when every lane holds one micro-batch.
  auto program = pipeline_program({.devices = {0, 1, 2}, .training = false, .takes_turns = true});
  program->step[1].waits = {{.task = 2, .lag = 1}};
  program->step[2].waits = {{.task = 0}, {.task = 1}};
  EXPECT_FALSE(take_turns(program->step));

  // Who only moves inputs and outputs is no device that computes.
  program = pipeline_program({.devices = {0, 1}, .training = false, .takes_turns = true});
  program->step.push_back({.device = 2});
  EXPECT_TRUE(take_turns(program->step));
}

TEST(TaskOrder, RefusesTasksThatWaitForEachOther) {
  std::vector<Task> tasks(2);
  tasks[0].name = "first";
  tasks[1].name = "second";
  tasks[1].waits = {{.task = 0}};
  tasks[0].waits = {{.task = 1}};
  try {
    order_tasks(tasks, 1, 2);
    FAIL() << "no error";
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find("\"first\" of round 0 waits for \"second\" of round 0"), std::string::npos);
  }
  tasks[0].waits = {{.task = 5}};
  EXPECT_THROW(order_tasks(tasks, 1, 1), InternalError);
  tasks[0] = {.device = 3};
  EXPECT_THROW(order_tasks(tasks, 1, 1), InternalError);
}

}  // namespace
}  // namespace aspen::testing
