// Graphs compiled and run end to end on the reference backend.
#include "harness.h"

namespace aspen::testing {
namespace {

TEST(Compile, RunsAnInferenceGraph) {
  Session session(R"(graph @main(%x: f32[2, 2]) {
    variable %w: f32[2, 2] parameter
    %0: f32[2, 2] = dot(%x, %w) {transpose_b=true}
    %1: f32[2, 2] = relu(%0)
    return y: %1
  })");
  session.set<float>("w", {1, 0, 0, -1});
  auto y = session.run({{1, 2, 3, -4}});
  EXPECT_EQ(y[0], (std::vector<float>{1, 0, 3, 4}));
}

// By op, for each of its inputs.
std::vector<std::vector<bool>> what_stays(const CompileOptions& options) {
  const Session session(R"(graph @main(%x: f32[2, 2]) {
    variable %w: f32[2, 2] parameter
    variable %total: f32[2, 2] buffer
    %0: f32[2, 2] = dot(%x, %w)
    %1: f32[2, 2] = dot(%0, %total)
    assign(%total, %1)
    %2: f32[] = reduce_sum(%1) {axes=[0, 1]}
    %3: f32[] = loss(%2)
    return y: %3
  })",
                        options);
  std::vector<std::vector<bool>> found;
  for (const Task& task : session.program().step) {
    for (const Instruction& instruction : task.instructions) {
      if (instruction.request.op != "dot") continue;
      std::vector<bool>& stays = found.emplace_back();
      for (const KernelInput& input : instruction.request.inputs) stays.push_back(input.stays);
    }
  }
  return found;
}

TEST(Compile, WeightsStayInInferenceWhereverTheyAre) {
  using V = std::vector<std::vector<bool>>;
  CompileOptions options;
  EXPECT_EQ(what_stays(options), (V{{false, true}, {false, false}}));
  options.locations.weights.off_device = true;
  EXPECT_EQ(what_stays(options), (V{{false, true}, {false, false}}));
  options.locations.weights = {.sharded = true, .min_shard_elements = 1};
  options.replicas = 2;
  EXPECT_EQ(what_stays(options), (V{{false, true}, {false, false}}));
  options.training = true;
  EXPECT_EQ(what_stays(options), (V{{false, false}, {false, false}}));
}

TEST(Compile, NothingStaysWithinAMemoryBudget) {
  CompileOptions options;
  options.memory_budget.bytes = 1 << 20;
  EXPECT_EQ(what_stays(options), (std::vector<std::vector<bool>>{{false, false}, {false, false}}));
}

TEST(Compile, ReturnsInputsVariablesAliasesAndAValueTwice) {
  Session session(R"(graph @main(%x: f32[2]) {
    variable %w: f32[2] buffer
    %0: f32[2] = add(%x, %w)
    %1: f32[1, 2] = reshape(%0) {shape=[1, 2]}
    assign(%w, %0)
    return x: %x, w: %w, sum: %0, again: %0, row: %1
  })");
  session.set<float>("w", {10, 20});
  using V = std::vector<float>;
  EXPECT_EQ(session.run({{1, 2}}), (std::vector<V>{{1, 2}, {10, 20}, {11, 22}, {11, 22}, {11, 22}}));
  EXPECT_EQ(session.run({{1, 2}}), (std::vector<V>{{1, 2}, {11, 22}, {12, 24}, {12, 24}, {12, 24}}));
  EXPECT_EQ(session.get("w"), (V{12, 24}));
}

TEST(Compile, SwapsTwoVariables) {
  Session session(R"(graph @main() {
    variable %a: f32[2] buffer
    variable %b: f32[2] buffer
    assign(%a, %b)
    assign(%b, %a)
    return
  })");
  session.set<float>("a", {1, 2});
  session.set<float>("b", {3, 4});
  session.run({});
  EXPECT_EQ(session.get("a"), (std::vector<float>{3, 4}));
  EXPECT_EQ(session.get("b"), (std::vector<float>{1, 2}));
}

TEST(Compile, MakesTwoVariablesFromEachOther) {
  Session session(R"(graph @main() {
    variable %a: f32[2] buffer
    variable %b: f32[2] buffer
    %0: f32[2] = neg(%b)
    %1: f32[2] = exp(%a)
    assign(%a, %0)
    assign(%b, %1)
    return
  })");
  session.set<float>("a", {0, 0});
  session.set<float>("b", {3, 4});
  session.run({});
  EXPECT_EQ(session.get("a"), (std::vector<float>{-3, -4}));
  EXPECT_EQ(session.get("b"), (std::vector<float>{1, 1}));
}

TEST(Compile, BuffersWrittenInForwardPersistBetweenMicroBatches) {
  Session session(R"(graph @main(%x: f32[1]) {
    variable %total: f32[1] buffer
    %0: f32[1] = add(%total, %x)
    assign(%total, %0)
    return total: %0
  })");
  EXPECT_EQ(session.run({{1, 2, 3, 4}}, 4)[0], (std::vector<float>{1, 3, 6, 10}));
  EXPECT_EQ(session.program().step.size(), 1u);  // added in place, no copy
}

// As a user says it who looks for the pass that makes a difference.
TEST(Compile, OptionalPassesCanBeLeftOut) {
  const auto skipped_with = [](const char* wish) {
    setenv("ASPEN_SKIP_PASSES", wish, 1);
    const CompileOptions options;
    unsetenv("ASPEN_SKIP_PASSES");
    return options.skip_passes;
  };
  EXPECT_EQ(CompileOptions().skip_passes, std::vector<std::string>());
  EXPECT_EQ(skipped_with(""), std::vector<std::string>());
  EXPECT_EQ(skipped_with("fuse_updates,merge_common"), (std::vector<std::string>{"fuse_updates", "merge_common"}));
  for (const char* needed : {"differentiate", "fuse_update", "merge_common, fuse_updates"}) {
    try {
      skipped_with(needed);
      ADD_FAILURE() << needed;
    } catch (const UserError& error) {
      unsetenv("ASPEN_SKIP_PASSES");
      EXPECT_NE(std::string(error.what()).find("fuse_attention"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace aspen::testing
