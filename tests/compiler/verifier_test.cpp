// The verifier notices broken graphs. Builders cannot make them, so the tests break sound ones.
#include <gtest/gtest.h>

#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/ir/parser.h"
#include "aspen/compiler/ir/verifier.h"
#include "aspen/ops/shape/shape.h"
#include "aspen/ops/softmax/softmax.h"

namespace aspen {
namespace {

std::string problem(const Graph& graph) {
  try {
    verify(graph);
  } catch (const InternalError& e) {
    return e.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Verifier, AcceptsASoundGraph) {
  auto graph = parse_graph("graph @main(%x: f32[2]) {\n %0: f32[2] = neg(%x)\n return y: %0\n}");
  EXPECT_EQ(problem(*graph), "");
}

TEST(Verifier, NoticesAUseBeforeTheDefinition) {
  auto graph = parse_graph("graph @main(%x: f32[2]) {\n %0: f32[2] = neg(%x)\n %1: f32[2] = exp(%0)\n return y: %1\n}");
  graph->move_before(graph->ops().back().get(), graph->ops().front().get());
  EXPECT_TRUE(contains(problem(*graph), "is not defined before it"));
}

TEST(Verifier, NoticesATypeThatDoesNotFollow) {
  auto graph = parse_graph("graph @main(%x: f32[6]) {\n %0: f32[2, 3] = reshape(%x) {shape=[2, 3]}\n return y: %0\n}");
  graph->ops().front()->set_attrs(Attrs::of(ReshapeAttrs{{3, 2}}));
  EXPECT_TRUE(contains(problem(*graph), "output 0 is f32[2, 3]; its shape rule gives f32[3, 2]"));
}

TEST(Verifier, NoticesAttributesTheRuleRejects) {
  auto graph = parse_graph("graph @main(%x: f32[6]) {\n %0: f32[6] = softmax(%x) {axis=0}\n return y: %0\n}");
  graph->ops().front()->set_attrs(Attrs::of(SoftmaxAttrs{3}));
  EXPECT_TRUE(contains(problem(*graph), "axis 3 is out of range"));
}

TEST(Verifier, NoticesTwoAssignsOfAVariable) {
  auto graph = parse_graph(
      "graph @main(%x: f32[2]) {\n variable %w: f32[2] buffer\n assign(%w, %x)\n assign(%w, %x)\n return\n}");
  EXPECT_TRUE(contains(problem(*graph), "variable \"w\" is assigned twice"));
}

TEST(Verifier, NoticesAnAssignToSomethingElse) {
  auto graph = parse_graph("graph @main(%x: f32[2], %y: f32[2]) {\n assign(%x, %y)\n return\n}");
  EXPECT_TRUE(contains(problem(*graph), "is not a variable"));
}

TEST(Verifier, NoticesAValueThatCrossesSections) {
  auto graph =
      parse_graph("graph @main(%x: f32[2]) {\n %0: f32[2] = neg(%x)\n %1: f32[2] = exp(%0) update\n return\n}");
  EXPECT_TRUE(contains(problem(*graph), "only variables carry values across"));
  graph = parse_graph("graph @main(%x: f32[2]) {\n %0: f32[2] = neg(%x) update\n return\n}");
  EXPECT_TRUE(contains(problem(*graph), "only variables carry values across"));
}

TEST(Verifier, NoticesAnOutputOfTheUpdate) {
  auto graph =
      parse_graph("graph @main() {\n variable %w: f32[2] buffer\n %0: f32[2] = neg(%w) update\n return y: %0\n}");
  EXPECT_TRUE(contains(problem(*graph), "is computed by the weight update"));
}

TEST(Verifier, NoticesTasksThatDoNotFit) {
  auto with = [](const std::string& tasks, const std::string& op) {
    return problem(*parse_graph("graph @main(%x: f32[2]) {\n lane 0\n " + tasks + "\n %0: f32[2] = neg(%x) " + op +
                                "\n return y: %0\n}"));
  };
  EXPECT_EQ(with("task 0 \"a\"\n task 1 \"b\" update", "task 0"), "");
  EXPECT_TRUE(contains(with("task 0 \"a\"", "task 1"), "there is no task 1"));
  EXPECT_TRUE(contains(with("task 0 \"a\"\n task 1 \"b\" update", "task 1"), "task \"b\" is of another section"));
  EXPECT_TRUE(contains(with("task 0 \"a\" lane 1", "task 0"), "task \"a\": there is no lane 1"));
  EXPECT_TRUE(contains(with("task 0 \"a\" device 1", "task 0"), "is on device 1, its lane on device 0"));
  EXPECT_TRUE(contains(with("task 0 \"a\" update\n task 1 \"b\"", "task 1"), "comes after an update task"));
}

TEST(Verifier, NoticesShardsThatAreNone) {
  auto graph = parse_graph("graph @main() {\n variable %w: f32[2] optimizer_state sharded numel 3\n return\n}");
  EXPECT_EQ(problem(*graph), "");
  graph->find_variable("w")->numel = 0;
  EXPECT_TRUE(contains(problem(*graph), "is no shard"));
}

TEST(Verifier, NoticesAGradientOfAnotherShape) {
  auto graph = parse_graph(
      "graph @main(%x: f32[2]) {\n variable %w: f32[3] parameter trainable\n %0: f32[2] = neg(%x) backward\n"
      " gradient %w: %0\n return\n}");
  EXPECT_TRUE(contains(problem(*graph), "the gradient of variable \"w\" is f32[2]; the variable is f32[3]"));
}

TEST(Verifier, NoticesAForwardOpThatReadsTheBackwardPass) {
  auto with = [](const std::string& details) {
    return problem(*parse_graph("graph @main(%x: f32[2]) {\n %0: f32[2] = neg(%x) backward\n %1: f32[2] = exp(%0) " +
                                details + "\n return y: %1\n}"));
  };
  EXPECT_EQ(with("backward"), "");
  EXPECT_TRUE(
      contains(with(""), "op exp (%2): is of the forward pass and reads input 0 (%1), a result of the backward"));
  auto graph =
      parse_graph("graph @main() {\n variable %w: f32[] buffer\n %0: f32[] = neg(%w) update backward\n return\n}");
  EXPECT_TRUE(contains(problem(*graph), "is of the backward pass and of the weight update"));
}

// Types that were inferred when the op was made hold until somebody changes it: no rule runs a second time for nothing.
TEST(Verifier, InfersTypesOnlyOfChangedOps) {
  int runs = 0;
  OpDef counted("counted");
  counted.input("x", "").output("y", "").infer([&](const InferContext& c) {
    ++runs;
    return std::vector<TensorType>{c.in(0)};
  });
  auto graph = parse_graph("graph @main(%x: f32[2], %y: f32[2], %z: f32[3]) {\n return\n}");
  Op* op = graph->add_op(counted, {graph->inputs()[0].get()}, Attrs());
  verify(*graph);
  op->set_input(0, graph->inputs()[1].get());
  verify(*graph);
  EXPECT_EQ(runs, 1);
  op->set_input(0, graph->inputs()[2].get());
  EXPECT_TRUE(contains(problem(*graph), "output 0 is f32[2]; its shape rule gives f32[3]"));
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace aspen
