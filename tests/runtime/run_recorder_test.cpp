// What a recorder tells of programs written by hand: every run of a task, once, in the order of its device, from all
// threads.
#include "aspen/runtime/run_recorder.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/runtime/pipeline_program.h"

namespace aspen::testing {
namespace {

using Kind = WorkerEvent::Kind;

std::vector<WorkerEvent> events_of(const WorkerRecord& record) {
  std::vector<WorkerEvent> events;
  record.events.for_each([&](const WorkerEvent& event) { events.push_back(event); });
  return events;
}

std::shared_ptr<RunRecorder> record(const PipelineSpec& spec, std::int64_t iterations, int calls,
                                    ExecutorOptions options, RecordLimits limits = {}) {
  options.recorder = std::make_shared<RunRecorder>(RunRecorder::Hooks{}, limits);
  Executor executor(pipeline_program(spec), options);
  const auto replicas = static_cast<std::int64_t>(spec.replicas);
  for (int i = 0; i < calls; ++i)
    run_all(executor, chain_inputs(iterations * spec.accumulation * replicas), iterations);
  return options.recorder;
}

void expect_all_tasks(const PipelineSpec& spec, ExecutorOptions options) {
  constexpr std::int64_t kIterations = 2;
  constexpr int kCalls = 3;
  const auto program = pipeline_program(spec);
  const auto recorder = record(spec, kIterations, kCalls, options);
  ASSERT_EQ(recorder->calls().end(), kCalls);
  std::map<std::pair<Kind, std::int32_t>, std::int64_t> runs;
  for (const WorkerRecord& of_worker : recorder->records()) {
    WorkerEvent::Time last{};
    for (const WorkerEvent& event : events_of(of_worker)) {
      const RecordedCall& call = recorder->calls()[static_cast<std::uint64_t>(event.call)];
      EXPECT_LE(last, event.begin);
      EXPECT_LE(call.begin, event.begin);
      EXPECT_LE(event.begin, event.received);
      EXPECT_LE(event.received, event.backward);
      EXPECT_LE(event.backward, event.computed);
      EXPECT_LE(event.computed, event.end);
      EXPECT_LE(event.end, call.end);
      last = event.end;
      ++runs[{event.kind, event.task}];
    }
  }
  const auto replicas = static_cast<std::int64_t>(spec.replicas);
  for (std::size_t task = 0; task < program->step.size(); ++task) {
    EXPECT_EQ((runs[{Kind::kStep, task}]), kCalls * kIterations * spec.accumulation * replicas) << task;
  }
  for (std::size_t task = 0; task < program->update.size(); ++task) {
    EXPECT_EQ((runs[{Kind::kUpdate, task}]), kCalls * kIterations * replicas) << task;
  }
}

TEST(RunRecorder, SeesEveryRunOfEveryTaskOnOneThread) {
  expect_all_tasks({.devices = {0, 1, 2}, .accumulation = 5}, {.num_threads = 1});
}

TEST(RunRecorder, SeesEveryRunOfEveryTaskOfManyThreads) {
  expect_all_tasks({.devices = {0, 1, 2}, .accumulation = 5, .replicas = 2}, {.thread_per_device = true});
}

TEST(RunRecorder, TellsHowLongInstructionsTook) {
  const auto recorder = record({.devices = {0}}, 1, 1, {.num_threads = 1});
  const WorkerRecord& of_worker = recorder->records().at(0);
  const std::vector<WorkerEvent> events = events_of(of_worker);
  std::int64_t timed = 0;
  for (const WorkerEvent& event : events) {
    ASSERT_GE(event.durations, 0);
    ASSERT_TRUE(of_worker.durations.has(static_cast<std::uint64_t>(event.durations)));
  }
  for (const InstructionTotal& total : of_worker.totals) {
    EXPECT_EQ(total.calls, 1);
    EXPECT_LE(total.shortest, total.longest);
    timed += total.nanoseconds;
  }
  std::int64_t in_events = 0;
  for (const WorkerEvent& event : events)
    in_events += std::chrono::nanoseconds(event.computed - event.received).count();
  EXPECT_LE(timed, in_events);
  EXPECT_EQ(of_worker.durations.end(), of_worker.totals.size());
}

TEST(RunRecorder, TheFirstCallDoesNotCountOnceThereIsAnother) {
  const auto recorder = record({.devices = {0}}, 1, 200, {.num_threads = 1});
  const std::vector<InstructionTotal>& totals = recorder->records().at(0).totals;
  const auto timed = static_cast<std::int64_t>(recorder->records()[0].durations.end() / totals.size());
  EXPECT_EQ(totals[0].calls, timed == 1 ? 1 : timed - 1);
}

TEST(RunRecorder, KeepsTheFirstCallAndTheLatest) {
  constexpr int kCalls = 300;
  const auto recorder = record({.devices = {0, 1}, .accumulation = 4}, 1, kCalls, {.num_threads = 1}, {.calls = 16});
  std::vector<std::int64_t> calls;
  recorder->calls().for_each([&](const RecordedCall& call) { calls.push_back(call.number); });
  ASSERT_EQ(calls.size(), 16);
  EXPECT_EQ(calls.front(), 0);
  EXPECT_EQ(calls[1], kCalls - 15);
  EXPECT_EQ(calls.back(), kCalls - 1);
  for (const WorkerRecord& of_worker : recorder->records()) {
    const std::vector<WorkerEvent> events = events_of(of_worker);
    EXPECT_EQ(events.front().call, 0);
    EXPECT_EQ(events.back().call, kCalls - 1);
  }
}

TEST(RunRecorder, GoesOnWithAnotherExecutor) {
  auto recorder = std::make_shared<RunRecorder>();
  for (int i = 0; i < 2; ++i) {
    Executor executor(pipeline_program({.devices = {0}}), {.num_threads = 1, .recorder = recorder});
    run_all(executor, chain_inputs(1), 1);
  }
  EXPECT_EQ(recorder->calls().end(), 2);
  EXPECT_EQ(events_of(recorder->records().at(0)).size(), 4);  // a step and an update each
}

TEST(RunRecorder, IsToldOfCallsThatFail) {
  PipelineSpec spec{.devices = {0, 1}, .accumulation = 3};
  spec.hook = [](const std::string& what, const StepContext& step) {
    if (what == "forward 1" && step.step == 1) throw UserError("no");
  };
  int told = 0;
  auto recorder = std::make_shared<RunRecorder>(RunRecorder::Hooks{.after_call = [&] { ++told; }});
  Executor executor(pipeline_program(spec), {.thread_per_device = true, .recorder = recorder});
  EXPECT_THROW(run_all(executor, chain_inputs(3), 1), Error);
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(recorder->is_running());
  EXPECT_FALSE(recorder->calls()[0].is_finished);
}

TEST(RunRecorder, ChangesNoResult) {
  const PipelineSpec spec{.devices = {0, 1, 2}, .accumulation = 4, .replicas = 2};
  const V x = chain_inputs(3 * 4 * 2);
  Executor plain(pipeline_program(spec), {.thread_per_device = true});
  Executor recorded(pipeline_program(spec), {.thread_per_device = true, .recorder = std::make_shared<RunRecorder>()});
  EXPECT_EQ(run_all(plain, x, 3), run_all(recorded, x, 3));
  for (const char* weight : {"w0", "w1", "w2"}) EXPECT_EQ(read(plain, weight), read(recorded, weight));
}

}  // namespace
}  // namespace aspen::testing
