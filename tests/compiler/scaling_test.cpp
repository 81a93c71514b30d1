// No step of the compiler takes time that grows with the square of the graph. Each test gives one step a graph on which
// it once did: so large that looking at everything for everything would take minutes, while one look takes a second or
// two. Where the work can be counted, it is.
#include <memory>
#include <numeric>
#include <random>

#include "aspen/compiler/autodiff/gradient_paths.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/memory/offsets.h"
#include "aspen/compiler/memory/plan.h"
#include "aspen/compiler/passes/merge_common.h"
#include "aspen/compiler/passes/schedule.h"
#include "aspen/compiler/placement/insert_transfers.h"
#include "aspen/compiler/placement/partition.h"
#include "aspen/compiler/placement/shard_weights.h"
#include "aspen/compiler/placement/stages.h"
#include "aspen/compiler/task_waits.h"
#include "aspen/ops/build.h"
#include "aspen/ops/shape/shape.h"
#include "harness.h"

namespace aspen::testing {
namespace {

const TensorType kType{DType::kF32, {4}};

// -- the graph ------------------------------------------------------------------------------------------------------

TEST(Scaling, OneOfManyUsesIsReplacedWithoutALookAtTheOthers) {
  constexpr std::size_t kUses = 1'000'000;
  Graph graph;
  Builder b(graph);
  Value* x = graph.add_input("x", kType);
  Value* y = graph.add_input("y", kType);
  Value* all = build::concat(b, std::vector<Value*>(kUses, x), 0);
  graph.replace_uses(x, y);
  EXPECT_TRUE(x->users().empty());
  EXPECT_EQ(y->users().size(), kUses);
  const Op& op = *all->producer();
  EXPECT_EQ(op.input(0), y);
  EXPECT_EQ(op.input(kUses - 1), y);
  graph.erase(all->producer());  // drops them one by one
  EXPECT_TRUE(y->users().empty());
}

TEST(Scaling, OneOfManyOutputsIsReplacedWithoutALookAtTheOthers) {
  constexpr int kOutputs = 300'000;
  Graph graph;
  std::vector<Value*> values;
  for (int i = 0; i < 2 * kOutputs; ++i) values.push_back(graph.add_input(fmt::format("x{}", i), kType));
  for (int i = 0; i < kOutputs; ++i) graph.add_output(fmt::format("y{}", i), values[i]);
  for (int i = 0; i < kOutputs; ++i) graph.replace_uses(values[i], values[kOutputs + i]);
  for (int i = 0; i < kOutputs; ++i) {
    ASSERT_EQ(graph.outputs()[i].value, values[kOutputs + i]);
    ASSERT_FALSE(values[i]->is_output());
  }
}

// -- passes ---------------------------------------------------------------------------------------------------------

TEST(Scaling, InputsOfOneOpAreAskedForTheirPathsOnce) {
  constexpr int kInputs = 300'000;
  Graph graph;
  Builder b(graph);
  Value* w = graph.add_variable("w", VariableKind::kParameter, kType, true)->value.get();
  Value* x = graph.add_input("x", kType);
  std::vector<Value*> values;
  for (int i = 0; i < kInputs; ++i) values.push_back(build::unary(b, "neg", i == 0 ? w : x));
  GradientPaths paths;
  EXPECT_TRUE(paths.wants(build::concat(b, values, 0)));
  for (int i = 0; i < kInputs; ++i) ASSERT_EQ(paths.wants(values[i]), i == 0);
}

// Equal ops of many stages are different ops.
TEST(Scaling, EqualOpsOfManyStagesDoNotMeet) {
  constexpr int kStages = 300'000;
  Graph graph;
  Builder b(graph);
  Value* x = graph.add_input("x", kType);
  for (int i = 0; i < kStages; ++i) {
    b.placement.stage = i;
    Value* y = build::unary(b, "neg", x);
    graph.add_output(fmt::format("y{}", i), build::add(b, y, build::unary(b, "neg", x)));
  }
  CompileOptions options;
  merge_common(graph, {.options = options});
  EXPECT_EQ(graph.ops().size(), 2u * kStages);  // one of the two negations of a stage is left
}

// Distinct constants of one type.
TEST(Scaling, ConstantsAreComparedByTheirContents) {
  constexpr int kConstants = 200'000;
  Graph graph;
  Builder b(graph);
  for (int i = 0; i < kConstants; ++i) {
    std::vector<std::byte> bytes(16);
    std::memcpy(bytes.data(), &i, sizeof(i));
    graph.add_output(fmt::format("y{}", i), build::constant(b, kType, std::move(bytes)));
  }
  CompileOptions options;
  merge_common(graph, {.options = options});
  EXPECT_EQ(graph.ops().size(), static_cast<std::size_t>(kConstants));
  partition(graph, {.options = options});
  MemoryPlan plan = plan_memory(graph, [](const Op&) { return OpDemand{.is_constant = true}; });
  EXPECT_EQ(plan.constants.size(), static_cast<std::size_t>(kConstants));
}

// v is assigned what is made of w, and w what is made of v: whichever is made first, the other one's wish is not met.
TEST(Scaling, OpsWhoseWishesContradictAreFoundAtOnce) {
  constexpr int kPairs = 150'000;
  Graph graph;
  Builder b(graph);
  const auto variable = [&](int i) {
    return graph.add_variable(fmt::format("v{}", i), VariableKind::kBuffer, kType)->value.get();
  };
  for (int i = 0; i < kPairs; ++i) {
    Value *v = variable(2 * i), *w = variable(2 * i + 1);
    Value *next_v = build::unary(b, "neg", w), *next_w = build::unary(b, "neg", v);
    b.emit("assign", {v, next_v});
    b.emit("assign", {w, next_w});
  }
  CompileOptions options;
  schedule(graph, {.options = options});
  EXPECT_EQ(kAssignedAfterReads.violation(graph), "");
}

// Slices free more than they take and come first. Then everything they are joined from is there, but the negations have
// an earlier turn: at each of them the schedule asks what the concat would free.
TEST(Scaling, InputsOfOneOpAreCountedOnce) {
  constexpr int kInputs = 200'000, kOthers = 60;
  Graph graph;
  Builder b(graph);
  Value* x = graph.add_input("x", kType);
  for (int i = 0; i < kOthers; ++i) graph.add_output(fmt::format("y{}", i), build::unary(b, "neg", x));
  std::vector<Value*> values;
  for (int i = 0; i < kInputs; ++i) {
    values.push_back(build::slice(b, graph.add_input(fmt::format("x{}", i), kType), 0, 0, 1));
  }
  graph.add_output("all", build::concat(b, values, 0));
  CompileOptions options;
  schedule(graph, {.options = options});
  EXPECT_TRUE(graph.ops().front()->is("slice"));
  EXPECT_TRUE(graph.ops().back()->is("concat"));
}

// -- placement ------------------------------------------------------------------------------------------------------

TEST(Scaling, OriginsOfALongChainOfAliasesAreFoundOnce) {
  constexpr int kLength = 300'000;
  Graph graph;
  Builder b(graph);
  Value* x = graph.add_input("x", kType);
  for (int i = 0; i < kLength; ++i) x = build::reshape(b, x, i % 2 == 0 ? Shape{2, 2} : Shape{4});
  graph.add_output("y", build::unary(b, "neg", x));
  EXPECT_EQ(devices_in_use(graph), std::vector<std::int64_t>{0});
  CompileOptions options;
  partition(graph, {.options = options});
  EXPECT_EQ(graph.tasks.size(), 1u);
}

TEST(Scaling, AliasesOfOneVariableDoNotAskAllItsUsers) {
  constexpr int kAliases = 300'000;
  Graph graph;
  Builder b(graph);
  Value* w = graph.add_variable("w", VariableKind::kBuffer, kType)->value.get();
  Value* sum = graph.add_input("x", {DType::kF32, {2, 2}});
  for (int i = 0; i < kAliases; ++i) sum = build::add(b, sum, build::reshape(b, w, {2, 2}));
  graph.add_output("y", sum);
  CompileOptions options;
  partition(graph, {.options = options});
  EXPECT_EQ(graph.tasks.size(), 1u);
}

// One task per device, and as many devices as ops: tables of all values or variables must not be made for each, nor one
// task looked for among all. A constant and a variable are used in all of them.
TEST(Scaling, ManyTasksAreEachPlannedByTheirOwnSize) {
  constexpr int kDevices = 60'000;
  Graph graph;
  Builder b(graph);
  Value* x = graph.add_input("x", kType);
  Value* shared = graph.add_variable("shared", VariableKind::kBuffer, kType)->value.get();
  Value* number = build::full(b, DType::kF32, {4}, 2);
  for (int i = 0; i < kDevices; ++i) {
    b.placement.device = b.placement.phase = i;
    Value* own = graph.add_variable(fmt::format("own{}", i), VariableKind::kBuffer, kType)->value.get();
    x = build::add(b, build::mul(b, x, number), build::add(b, own, shared));
  }
  graph.add_output("y", x);
  CompileOptions options{.execution = Execution::kPhased};
  PassContext context{.options = options};
  partition(graph, context);
  insert_transfers(graph, context);
  schedule(graph, context);
  ASSERT_EQ(graph.tasks.size(), static_cast<std::size_t>(kDevices));
  EXPECT_EQ(kGroupedByTask.violation(graph), "");
  MemoryPlan plan = plan_memory(graph, [](const Op& op) { return OpDemand{.is_constant = op.is("full")}; });
  EXPECT_EQ(plan.constants.size(), static_cast<std::size_t>(kDevices));  // each device has its own
  EXPECT_EQ(plan.tasks.back().calls.size(), 3u);
  EXPECT_EQ(plan.tasks[1].calls.size(), 4u);  // and sends the result on
  std::vector<std::vector<Wait>> waits = find_waits(graph);
  EXPECT_EQ(waits.size(), graph.tasks.size());
}

TEST(Scaling, ReadersOfAWeightAreFoundAmongItsUsers) {
  constexpr int kWeights = 100'000;
  Graph graph;
  Builder b(graph);
  Value* x = graph.add_input("x", kType);
  for (int i = 0; i < kWeights; ++i) {
    TensorType type{DType::kF32, {2, 2}};
    Value* w = graph.add_variable(fmt::format("w{}", i), VariableKind::kParameter, type)->value.get();
    x = build::add(b, x, build::reshape(b, w, {4}));
  }
  graph.add_output("y", x);
  CompileOptions options{.replicas = 2};
  options.locations.weights = {.sharded = true, .min_shard_elements = 2};
  shard_weights(graph, {.options = options});
  EXPECT_EQ(graph.ops().size(), 3u * kWeights);  // each is gathered
}

// -- memory ---------------------------------------------------------------------------------------------------------

// As the activations of a network: each lives until the backward pass has come back to it.
std::vector<Lifetime> nested_lifetimes(std::size_t count) {
  std::vector<Lifetime> buffers(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto first = static_cast<std::int64_t>(i);
    buffers[i] = {.bytes = 64 * (1 + i % 3), .first = first, .last = static_cast<std::int64_t>(2 * count) - first};
  }
  return buffers;
}

TEST(Scaling, OffsetsLookAtFewOfTheOtherBuffers) {
  constexpr std::size_t kCount = 20'000;
  std::vector<Lifetime> buffers = nested_lifetimes(kCount);
  std::size_t num_ranges = 0, arena = assign_offsets(buffers, &num_ranges);
  std::size_t bytes = 0;
  for (const Lifetime& buffer : buffers) bytes += buffer.bytes;
  EXPECT_EQ(arena, bytes);              // they are all alive in the middle
  EXPECT_LT(num_ranges, 300 * kCount);  // about 7 log2 n for each; a look at all below it were n / 2
}

// The same by looking at every buffer.
std::size_t assign_offsets_plainly(std::vector<Lifetime>& buffers) {
  std::vector<std::size_t> by_size(buffers.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<const Lifetime*> placed;  // by offset
  std::size_t arena = 0;
  for (std::size_t index : by_size) {
    Lifetime& buffer = buffers[index];
    std::size_t offset = 0, need = aligned(buffer.bytes);
    if (need == 0) continue;
    for (const Lifetime* other : placed) {
      if (other->last < buffer.first || buffer.last < other->first) continue;
      if (offset + need <= other->offset) break;
      offset = std::max(offset, other->offset + aligned(other->bytes));
    }
    buffer.offset = offset;
    arena = std::max(arena, offset + need);
    auto place = std::upper_bound(placed.begin(), placed.end(), offset,
                                  [](std::size_t value, const Lifetime* other) { return value < other->offset; });
    placed.insert(place, &buffer);
  }
  return arena;
}

TEST(Offsets, AreThoseOfTheLowestRoomThatIsFree) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::vector<Lifetime> buffers(1 + random() % 200);
    const std::size_t longest = 1 + random() % 100, sizes = 1 + random() % 4000;
    for (Lifetime& buffer : buffers) {
      buffer.bytes = random() % sizes;
      buffer.first = static_cast<std::int64_t>(random() % 150) - 1;
      buffer.last = buffer.first + static_cast<std::int64_t>(random() % longest);
    }
    std::vector<Lifetime> plain = buffers;
    EXPECT_EQ(assign_offsets(buffers), assign_offsets_plainly(plain));
    for (std::size_t i = 0; i < buffers.size(); ++i) ASSERT_EQ(buffers[i].offset, plain[i].offset) << i;
  }
}

}  // namespace
}  // namespace aspen::testing
