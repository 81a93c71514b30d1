// The memory plan never lets two live buffers overlap: checked on the plan itself and by running random graphs
// against an evaluation in which nothing shares memory.
#include <cstring>
#include <random>
#include <unordered_map>

#include "aspen/compiler/evaluate.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/memory/offsets.h"
#include "aspen/compiler/memory/plan.h"
#include "aspen/compiler/placement/partition.h"
#include "aspen/ops/build.h"
#include "aspen/ops/shape/shape.h"
#include "harness.h"

namespace aspen::testing {
namespace {

bool overlap(std::size_t a, std::size_t a_bytes, std::size_t b, std::size_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

TEST(Offsets, LiveBuffersNeverOverlap) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> buffers(random() % 60);
    for (auto& buffer : buffers) {
      buffer.bytes = random() % 1000;
      buffer.first = static_cast<std::int64_t>(random() % 40);
      buffer.last = buffer.first + static_cast<std::int64_t>(random() % 10);
    }
    std::size_t arena = assign_offsets(buffers);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(buffers[i].offset % kBufferAlignment, 0u);
      EXPECT_LE(buffers[i].offset + buffers[i].bytes, arena);
      for (std::size_t k = 0; k < i; ++k) {
        bool together = buffers[i].first <= buffers[k].last && buffers[k].first <= buffers[i].last;
        if (together) {
          EXPECT_FALSE(overlap(buffers[i].offset, buffers[i].bytes, buffers[k].offset, buffers[k].bytes));
        }
      }
    }
  }
}

TEST(Offsets, BuffersThatNeverMeetShareOnePlace) {
  std::vector<Lifetime> buffers{{.bytes = 100, .first = 0, .last = 1},
                                {.bytes = 100, .first = 2, .last = 3},
                                {.bytes = 64, .first = 4, .last = 9}};
  EXPECT_EQ(assign_offsets(buffers), 128u);
}

// A random graph of elementwise ops, reshapes and products over a few shapes, with variables that are read and
// assigned anywhere.
std::unique_ptr<Graph> random_graph(std::mt19937& random) {
  auto graph = std::make_unique<Graph>();
  Builder b(*graph);
  std::vector<Value*> values;
  for (int i = 0; i < 3; ++i) values.push_back(graph->add_input(fmt::format("x{}", i), {DType::kF32, {4, 4}}));
  std::vector<Variable*> variables;
  for (int i = 0; i < 4; ++i) {
    variables.push_back(graph->add_variable(fmt::format("v{}", i), VariableKind::kBuffer, {DType::kF32, {4, 4}}));
    values.push_back(variables.back()->value.get());
  }
  auto pick = [&] { return values[random() % values.size()]; };
  for (int i = 0; i < 40; ++i) {
    Value* made = nullptr;
    switch (random() % 7) {
      case 0: made = build::unary(b, "tanh", pick()); break;
      case 1: made = build::add(b, pick(), pick()); break;
      case 2: made = build::sub(b, pick(), pick()); break;
      case 3: made = build::unary(b, "sigmoid", pick()); break;
      case 4: made = build::transpose(b, pick(), {1, 0}); break;
      case 5: made = build::dot(b, build::reshape(b, pick(), {4, 4}), pick()); break;
      default:  // there and back through an alias
        made = b.make("reshape", {b.make("reshape", {pick()}, ReshapeAttrs{{16}})}, ReshapeAttrs{{4, 4}});
    }
    values.push_back(made);
  }
  for (Variable* variable : variables) {
    if (random() % 4 != 0) b.emit("assign", {variable->value.get(), pick()});
  }
  for (int i = 0; i < 4; ++i) graph->add_output(fmt::format("y{}", i), pick());
  return graph;
}

using Bytes = std::vector<std::byte>;

// Runs the graph with a buffer per value.
struct Plain {
  std::unordered_map<const Value*, Bytes> values;

  void run(const Graph& graph) {
    std::vector<std::pair<const Value*, const Value*>> assigns;
    for (const auto& op : graph.ops()) {
      if (op->is("assign")) {
        assigns.emplace_back(op->input(0), op->input(1));
        continue;
      }
      std::vector<const Bytes*> inputs;
      for (const Value* input : op->inputs()) inputs.push_back(&values.at(input));
      if (op->def().is_alias()) {
        values[op->output()] = *inputs[0];
      } else {
        values[op->output()] = evaluate(*op, inputs, reference())[0];
      }
    }
    outputs.clear();
    for (const auto& output : graph.outputs()) outputs.push_back(values.at(output.value));
    std::vector<Bytes> stored;
    for (auto& assign : assigns) stored.push_back(values.at(assign.second));
    for (std::size_t i = 0; i < assigns.size(); ++i) values[assigns[i].first] = stored[i];
  }
  std::vector<Bytes> outputs;
};

TEST(MemoryPlan, RandomGraphsGiveTheSameBitsAsWithoutSharing) {
  std::mt19937 random(11);
  for (int round = 0; round < 150; ++round) {
    auto graph = random_graph(random);
    auto draw = [&] {
      Bytes bytes(64);
      for (int i = 0; i < 16; ++i) {
        float value = static_cast<float>(random() % 2000) / 1000.0f - 1;
        std::memcpy(bytes.data() + 4 * i, &value, 4);
      }
      return bytes;
    };
    Plain plain;
    std::vector<Bytes> inputs;
    for (const auto& input : graph->inputs()) plain.values[input.get()] = inputs.emplace_back(draw());
    for (const auto& variable : graph->variables()) plain.values[variable->value.get()] = draw();

    // The plan alone: no pass, so that ops and assigns keep their random order; every other round scheduled.
    CompileOptions options;
    options.skip_passes = {"canonicalise", "fold_constants", "merge_common", "remove_dead"};
    if (round % 2 == 0) options.skip_passes.push_back("schedule");
    std::vector<Bytes> before;
    for (const auto& variable : graph->variables()) before.push_back(plain.values[variable->value.get()]);
    plain.run(*graph);
    Executor executor(std::shared_ptr<Program>(compile(*graph, options, reference())));
    for (std::size_t i = 0; i < before.size(); ++i) executor.write_variable(graph->variables()[i]->name, before[i]);

    for (int step = 0; step < 2; ++step) {
      if (step > 0) plain.run(*graph);
      RunRequest request;
      for (const auto& input : inputs) request.inputs.push_back(input.data());
      std::vector<Bytes> outputs(graph->outputs().size(), Bytes(64));
      for (auto& output : outputs) request.outputs.push_back({.data = output.data()});
      executor.run(request);
      ASSERT_EQ(outputs, plain.outputs) << "round " << round << ", step " << step;
      for (const auto& variable : graph->variables()) {
        Bytes bytes(64);
        executor.read_variable(variable->name, bytes);
        ASSERT_EQ(bytes, plain.values[variable->value.get()]) << "round " << round << ", variable " << variable->name;
      }
    }
  }
}

MemoryPlan plan_one_task(Graph& graph, OpDemand demand = {}) {
  CompileOptions options;
  partition(graph, {.options = options});
  return plan_memory(graph, [demand](const Op&) { return demand; });
}

TEST(MemoryPlan, BuffersAliveTogetherDoNotOverlap) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    auto graph = random_graph(random);
    MemoryPlan plan = plan_one_task(*graph, {.workspace_bytes = 100});
    const auto& buffers = plan.tasks[0].buffers;
    ASSERT_FALSE(buffers.empty());
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_LE(buffers[i].place.offset + buffers[i].place.bytes, plan.devices[0].scratch_bytes);
      for (std::size_t k = 0; k < i; ++k) {
        if (buffers[i].first > buffers[k].last || buffers[k].first > buffers[i].last) continue;
        EXPECT_FALSE(
            overlap(buffers[i].place.offset, buffers[i].place.bytes, buffers[k].place.offset, buffers[k].place.bytes));
      }
    }
  }
}

TEST(MemoryPlan, AChainOfElementwiseOpsWorksInPlace) {
  auto graph = parse_graph(R"(graph @main(%x: f32[1024]) {
    %0: f32[1024] = exp(%x)
    %1: f32[32, 32] = reshape(%0) {shape=[32, 32]}
    %2: f32[32, 32] = tanh(%1)
    %3: f32[32, 32] = neg(%2)
    return y: %3
  })");
  MemoryPlan plan = plan_one_task(*graph);
  ASSERT_EQ(plan.tasks[0].calls.size(), 3u);
  for (const PlannedCall& call : plan.tasks[0].calls) EXPECT_EQ(call.outputs[0].arena, Arena::kOutputs);
  EXPECT_EQ(plan.devices[0].scratch_bytes, 0u);
}

TEST(MemoryPlan, InputsAreReadWhereTheyLie) {
  auto graph = parse_graph(R"(graph @main(%x: f32[16], %t: f32[4, 4]) {
    %0: f32[16] = exp(%x)
    %1: f32[16] = reshape(%t) {shape=[16]}
    %2: f32[16] = add(%0, %1)
    return y: %2, x: %x
  })");
  MemoryPlan plan = plan_one_task(*graph);
  const TaskPlan& task = plan.tasks[0];
  EXPECT_EQ(task.calls[0].inputs[0].arena, Arena::kInputs);
  EXPECT_EQ(task.calls[1].inputs[1].arena, Arena::kInputs);
  EXPECT_EQ(task.calls[1].inputs[1].owner, 1u);
  EXPECT_EQ(task.outputs[1].from.arena, Arena::kInputs);  // returned as it is: a copy
  EXPECT_EQ(plan.devices[0].scratch_bytes, 0u);
  plan = plan_one_task(*graph, {.copies_inputs = true});
  EXPECT_EQ(plan.tasks[0].inputs[0].to.arena, Arena::kScratch);
  EXPECT_EQ(plan.tasks[0].calls[0].inputs[0].arena, Arena::kScratch);
}

TEST(MemoryPlan, OneOfEqualOutputsIsWrittenWhereItGoes) {
  auto graph = parse_graph(R"(graph @main(%x: f32[16]) {
    %0: f32[16] = exp(%x)
    %1: f32[4, 4] = reshape(%0) {shape=[4, 4]}
    return y: %0, z: %1
  })");
  MemoryPlan plan = plan_one_task(*graph);
  const TaskPlan& task = plan.tasks[0];
  for (const BufferRef& place : {task.calls[0].outputs[0], task.outputs[0].from, task.outputs[1].from}) {
    EXPECT_EQ(place.arena, task.calls[0].outputs[0].arena);
    EXPECT_EQ(place.owner, task.calls[0].outputs[0].owner);
  }
  EXPECT_EQ(task.calls[0].outputs[0].arena, Arena::kOutputs);
}

TEST(MemoryPlan, AnOperandReadTwiceIsNotOverwritten) {
  auto graph = parse_graph(R"(graph @main(%x: f32[16]) {
    %0: f32[16] = exp(%x)
    %1: f32[16] = mul(%0, %0)
    %2: f32[16] = mul(%1, %1)
    return y: %2
  })");
  MemoryPlan plan = plan_one_task(*graph);
  const PlannedCall& mul = plan.tasks[0].calls[1];
  ASSERT_EQ(mul.inputs[0].arena, mul.outputs[0].arena);
  EXPECT_NE(mul.inputs[0].offset, mul.outputs[0].offset);
}

}  // namespace
}  // namespace aspen::testing
