// Replicas: who reads which input, whose gradients are added up, what the host sees, shards.
#include <gtest/gtest.h>

#include <numeric>

#include "aspen/base/error.h"
#include "aspen/runtime/replica_reduction.h"
#include "pipeline_program.h"

namespace aspen::testing {
namespace {

using Kind = ReplicaGrouping::Kind;

void expect_equals_plain_loop(const PipelineSpec& spec, std::int64_t iterations, ExecutorOptions options) {
  Executor executor(pipeline_program(spec), options);
  PlainChain plain(spec);
  auto groups = static_cast<std::int64_t>(spec.input_grouping.num_groups(spec.replicas));
  for (int call = 0; call < 2; ++call) {
    V x = chain_inputs(iterations * spec.accumulation * groups, call);
    ASSERT_EQ(run_all(executor, x, iterations), plain.run(x, iterations));
  }
  std::size_t values = spec.weight_grouping.num_groups(spec.replicas);
  for (std::size_t s = 0; s < spec.devices.size(); ++s) {
    std::string name = fmt::format("w{}", s);
    ASSERT_EQ(executor.host_bytes(name), values * kBytes);
    V expected;
    for (std::size_t group = 0; group < values; ++group) {
      const V& w = plain.weight(spec.weight_grouping.members(group, spec.replicas).front(), s);
      expected.insert(expected.end(), w.begin(), w.end());
    }
    EXPECT_EQ(read(executor, name, values * kWidth), expected) << name;
  }
}

// Whichever threads run them.
void expect_equals_plain_loop(const PipelineSpec& spec, std::int64_t iterations) {
  expect_equals_plain_loop(spec, iterations, {});
  expect_equals_plain_loop(spec, iterations, {.num_threads = 1});
  expect_equals_plain_loop(spec, iterations, {.thread_per_device = true});
}

TEST(Replicas, TrainWithEveryGroupingOfWeightsAndInputs) {
  const std::vector<ReplicaGrouping> groupings = {{.kind = Kind::kAll},
                                                  {.kind = Kind::kConsecutive, .size = 2},
                                                  {.kind = Kind::kOrthogonal, .size = 2},
                                                  {.kind = Kind::kNone}};
  for (const ReplicaGrouping& weights : groupings) {
    for (const ReplicaGrouping& inputs : groupings) {
      SCOPED_TRACE(fmt::format("weights {}, inputs {}", static_cast<int>(weights.kind), static_cast<int>(inputs.kind)));
      expect_equals_plain_loop(
          {.devices = {0, 1}, .accumulation = 3, .replicas = 4, .weight_grouping = weights, .input_grouping = inputs},
          2);
    }
  }
}

TEST(Replicas, TrainOnOneDeviceEach) {
  for (std::size_t replicas : {2, 3, 8}) {
    expect_equals_plain_loop({.devices = {0}, .accumulation = 2, .replicas = replicas}, 3);
  }
}

TEST(Replicas, FourOfFourStagesTrainAndInfer) {
  expect_equals_plain_loop({.devices = {0, 1, 2, 3}, .accumulation = 8, .replicas = 4}, 2);
  expect_equals_plain_loop({.devices = {0, 1, 2, 3}, .training = false, .replicas = 4}, 10);
}

TEST(Replicas, OutputsHaveOneBlockPerReplica) {
  PipelineSpec spec{.devices = {0, 1}, .training = false, .replicas = 2};
  Executor executor(pipeline_program(spec));
  std::int64_t iterations = 6;
  V x = chain_inputs(iterations * 2);
  V all = PlainChain(spec).run(x, iterations);
  auto block = [&](std::int64_t m, std::int64_t r) {
    return V(all.begin() + (m * 2 + r) * kWidth, all.begin() + (m * 2 + r + 1) * kWidth);
  };
  auto run = [&](HostOutput output, std::size_t blocks) {
    V y(blocks * kWidth);
    output.data = y.data();
    executor.run({.device_iterations = iterations, .inputs = {x.data()}, .outputs = {output}});
    return y;
  };
  auto join = [](std::vector<V> blocks) {
    V result;
    for (const V& values : blocks) result.insert(result.end(), values.begin(), values.end());
    return result;
  };
  EXPECT_EQ(run({.mode = OutputMode::kAll}, 12), all);
  EXPECT_EQ(run({.mode = OutputMode::kFinal}, 2), join({block(5, 0), block(5, 1)}));
  EXPECT_EQ(run({.mode = OutputMode::kEveryN, .period = 3}, 4),
            join({block(2, 0), block(2, 1), block(5, 0), block(5, 1)}));
  V sums(2 * kWidth);
  for (std::int64_t m = 0; m < iterations; ++m) {
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += all[static_cast<std::size_t>(m) * sums.size() + i];
  }
  EXPECT_EQ(run({.mode = OutputMode::kSum}, 2), sums);
}

TEST(Replicas, HostWritesAndReadsOneValuePerGroup) {
  PipelineSpec spec{.devices = {0}, .replicas = 4, .weight_grouping = {.kind = Kind::kOrthogonal, .size = 2}};
  V values(4 * kWidth);
  std::iota(values.begin(), values.end(), 0.0f);
  {
    Executor executor(pipeline_program(spec));
    V two(values.begin(), values.begin() + 2 * kWidth);
    write(executor, "w0", two);
    EXPECT_EQ(read(executor, "w0", 2 * kWidth), two);
    EXPECT_THROW(read(executor, "w0", kWidth), UserError);
  }
  spec.weight_grouping.returns_all = true;
  Executor executor(pipeline_program(spec));
  EXPECT_EQ(executor.host_bytes("w0"), 4 * kBytes);
  write(executor, "w0", values);
  EXPECT_EQ(read(executor, "w0", 4 * kWidth), values);
}

TEST(Replicas, HandKernelsTheirNumber) {
  PipelineSpec spec{.devices = {0}, .training = false, .replicas = 3};
  std::array<std::atomic<int>, 3> calls{};
  spec.hook = [&](const std::string&, const StepContext& context) {
    if (context.num_replicas == 3) ++calls[context.replica];
  };
  Executor executor(pipeline_program(spec));
  run_all(executor, chain_inputs(6), 2);
  for (const auto& count : calls) EXPECT_EQ(count, 2);
}

TEST(Replicas, HalvesAreAddedInFloatAndRoundedOnce) {
  // 2048 + 1 is 2048 in half; 2048 + 1 + 1 is not.
  std::vector<std::vector<Half>> values = {{static_cast<Half>(2048)}, {static_cast<Half>(1)}, {static_cast<Half>(1)}};
  Reduction reduction{.dtype = DType::kF16, .first = 0, .last = 1};
  for (auto& value : values) reduction.members.push_back(reinterpret_cast<std::byte*>(value.data()));
  run(reduction);
  for (const auto& value : values) EXPECT_EQ(static_cast<float>(value[0]), 2050.0f);
}

// y = w on device 0 and z = w on device 1. The update of replica r adds r + 1 to the state of its own shard and the
// state to its own shard of w; the others' shards come from the other replicas.
std::shared_ptr<Program> sharded_program(std::size_t replicas) {
  auto program = std::make_shared<Program>();
  program->training = true;
  program->replicas = replicas;
  program->outputs = {{"y", tensor_type()}, {"z", tensor_type()}};
  program->devices = {{.variable_bytes = 2 * kSpace, .scratch_bytes = kSpace},
                      {.variable_bytes = kSpace, .scratch_bytes = kSpace}};
  program->lanes = {{.device = 0}, {.device = 1}};
  BufferRef w{.arena = Arena::kVariables, .bytes = kBytes}, copy_of_w = w;
  copy_of_w.owner = 1;
  auto shard = static_cast<std::size_t>(shard_elements(kWidth, replicas)) * sizeof(float);
  BufferRef state{.arena = Arena::kVariables, .offset = kSpace, .bytes = shard};
  program->variables.push_back({.name = "w", .type = tensor_type(), .places = {w, copy_of_w}, .gathered = true});
  program->variables.push_back({.name = "state", .type = tensor_type(), .places = {state}, .sharded = true});
  for (std::size_t device : {0, 1}) {
    BufferRef result{.arena = Arena::kScratch, .owner = device, .bytes = kBytes};
    Task task{.device = device, .lane = device, .outputs = {{.output = device, .from = result}}};
    task.instructions.push_back(
        instruction("copy", {device == 0 ? w : copy_of_w}, {result},
                    [](const KernelArgs& args) { std::copy_n(input(args, 0), kWidth, output(args, 0)); }));
    program->step.push_back(std::move(task));
  }
  auto update = [](const KernelArgs& args) {
    const StepContext& step = *args.step;
    auto [first, last] = shard_of(kWidth, step.replica, step.num_replicas);
    for (std::int64_t i = first; i < last; ++i) {
      output(args, 1)[i - first] += static_cast<float>(step.replica + 1);
      output(args, 0)[i] += output(args, 1)[i - first];
    }
  };
  program->update.emplace_back().instructions.push_back(instruction("update", {w, state}, {w, state}, update));
  return program;
}

void expect_gathered_shards(ExecutorOptions options) {
  for (std::size_t replicas : {1, 2, 4, 7}) {  // 20 elements over 7 replicas: the last has 2, not 3
    Executor executor(sharded_program(replicas), options);
    V state(kWidth, 0.25f);
    write(executor, "state", state);
    EXPECT_EQ(read(executor, "state"), state);
    V w(kWidth);
    std::size_t blocks = 3 * replicas;
    V y(blocks * kWidth), z(y);
    executor.run({.device_iterations = 3, .outputs = {{.data = y.data()}, {.data = z.data()}}});
    V expected;
    for (int iteration = 0; iteration < 3; ++iteration) {
      for (std::size_t r = 0; r < replicas; ++r) expected.insert(expected.end(), w.begin(), w.end());
      for (std::size_t r = 0; r < replicas; ++r) {
        auto [first, last] = shard_of(kWidth, r, replicas);
        for (std::int64_t i = first; i < last; ++i) w[i] += state[i] += static_cast<float>(r + 1);
      }
    }
    EXPECT_EQ(y, expected);
    EXPECT_EQ(z, expected);
    EXPECT_EQ(read(executor, "w"), w);
    EXPECT_EQ(read(executor, "state"), state);
  }
}

TEST(Replicas, GatherTheShardsOfOthersOnAllDevices) {
  expect_gathered_shards({});
  expect_gathered_shards({.num_threads = 1});
  expect_gathered_shards({.thread_per_device = true});
}

TEST(Replicas, RefuseShardsOfWhatTheyDoNotShare) {
  auto program = sharded_program(2);
  program->variables[1].grouping.kind = Kind::kNone;
  EXPECT_THROW(Executor{program}, InternalError);
}

}  // namespace
}  // namespace aspen::testing
