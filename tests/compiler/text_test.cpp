// The text form: prints and parses back to the same text; errors say where and what was expected.
#include <gtest/gtest.h>

#include <cmath>

#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/ir/parser.h"
#include "aspen/compiler/ir/printer.h"
#include "aspen/compiler/ir/verifier.h"
#include "aspen/ops/conv/conv.h"
#include "aspen/ops/host_call/host_call.h"
#include "aspen/ops/unary/unary.h"

namespace aspen {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_graph(text);
  } catch (const InternalError& e) {
    return std::string("internal: ") + e.what();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Text, PrintsAReadableGraph) {
  std::string text =
      "graph @main(%x: f32[16, 5], %labels: i32[16]) {\n"
      "  variable %fc.weight: f32[10, 5] parameter trainable\n"
      "  variable %scale: f32[] optimizer_state initial 1\n"
      "  %0: f32[16, 10] = dot(%x, %fc.weight) {transpose_a=false, transpose_b=true} scope \"fc\" at \"model.py:12\"\n"
      "  %1: f32[16, 10] = log_softmax(%0) {axis=1} device 1 stage 2 phase 3\n"
      "  %2: f32[], %3: f32[] = nll(%1, %labels, _) {ignore_index=-100, reduction=\"mean\"} no_grad\n"
      "  %4: f32[16, 10] = exp(%1) backward\n"
      "  %\"new scale\": f32[] = exp(%scale) update\n"
      "  assign(%scale, %\"new scale\") update\n"
      "  return loss: %2, \"the weight\": %3\n"
      "}\n";
  auto graph = parse_graph(text);
  verify(*graph);
  EXPECT_EQ(to_text(*graph), text);
  EXPECT_EQ(graph->find_variable("scale")->initial, 1);
}

TEST(Text, PrintsWhereThingsAreKeptAndRun) {
  std::string text =
      "graph @main(%x: f32[2] overlapped, %z: f32[], %ids: i32[3] wide, %more: i32[] overlapped wide) {\n"
      "  variable %w: f32[2] parameter trainable gathered group consecutive 2\n"
      "  variable %v: f32[2] parameter group orthogonal 4 returns_all\n"
      "  variable %u: f32[2] buffer off_device group none\n"
      "  variable %t: f32[2] buffer group all returns_all\n"
      "  variable %Accum___w: f32[2] accumulator reduced\n"
      "  variable %Accl1___w: f32[1] optimizer_state initial 1 off_device sharded numel 2\n"
      "  lane 0\n"
      "  lane 1 device 1 depth 3\n"
      "  task 0 \"forward of stage 0\" cost 0.5\n"
      "  task 1 \"stage 1\" device 1 lane 1 stage 1\n"
      "  task 2 \"update\" cost 2 update\n"
      "  %0: f32[2] = neg(%x) task 0\n"
      "  %1: f32[2] = exp(%0) device 1 stage 1 task 1\n"
      "  %2: f32[2] = exp(%w) task 2 update\n"
      "  assign(%w, %2) task 2 update\n"
      "  return y: %1 overlapped, again: %1\n"
      "}\n";
  auto graph = parse_graph(text);
  verify(*graph);
  EXPECT_EQ(to_text(*graph), text);
  EXPECT_TRUE(graph->is_overlapped_input(0));
  EXPECT_FALSE(graph->is_overlapped_input(1));
  EXPECT_FALSE(graph->is_wide_input(0));
  EXPECT_TRUE(graph->is_wide_input(2));
  EXPECT_TRUE(graph->outputs()[0].overlapped);
  EXPECT_FALSE(graph->outputs()[1].overlapped);
  EXPECT_EQ(graph->find_variable("v")->grouping,
            (ReplicaGrouping{.kind = ReplicaGrouping::Kind::kOrthogonal, .size = 4, .returns_all = true}));
  EXPECT_EQ(graph->find_variable("Accl1___w")->numel, 2);
  ASSERT_EQ(graph->lanes.size(), 2u);
  EXPECT_EQ(graph->lanes[1].depth, 3);
  ASSERT_EQ(graph->tasks.size(), 3u);
  EXPECT_EQ(graph->tasks[1].lane, 1);
  EXPECT_EQ(graph->tasks[2].section, Section::kUpdate);
  EXPECT_EQ(graph->ops().front()->task, 0);
}

TEST(Text, RoundTripsEveryExampleOfEveryOp) {
  for (const OpDef* def : op_registry().all()) {
    if (def->name() == "host_call") continue;  // its functions have no text form
    for (const Example& example : def->examples()) {
      Graph graph;
      std::vector<Value*> inputs;
      for (const auto& type : example.inputs) inputs.push_back(graph.add_input("x", type));
      Op* op = graph.add_op(*def, inputs, example.attrs);
      for (Value* output : op->outputs()) graph.add_output("y", output);
      std::string text = to_text(graph);
      SCOPED_TRACE(text);
      auto parsed = parse_graph(text);
      verify(*parsed);
      EXPECT_EQ(to_text(*parsed), text);
      EXPECT_TRUE(parsed->ops().front()->attrs() == example.attrs);
    }
  }
}

TEST(Text, RoundTripsNumbersThatAreHardToWrite) {
  double inf = std::numeric_limits<double>::infinity();
  for (double value : {0.1, 1e-300, 1e300, -inf, inf, 123456789.125, -0.0, std::nan("")}) {
    Graph graph;
    Builder b(graph);
    b.make("clamp", {graph.add_input("x", {DType::kF32, {2}})}, ClampAttrs{.low = value});
    std::string text = to_text(graph);
    auto parsed = parse_graph(text);
    EXPECT_EQ(to_text(*parsed), text);
    double read = parsed->ops().front()->attrs<ClampAttrs>().low;
    EXPECT_TRUE(read == value || (std::isnan(read) && std::isnan(value))) << text;
  }
}

TEST(Text, KeepsNamesThatLookLikeNumbersOrCollide) {
  Graph graph;
  Builder b(graph);
  Value* x = graph.add_input("0", {DType::kF32, {}});
  Value* first = b.make("neg", {x});
  Value* second = b.make("exp", {first});
  first->set_name("a \"quoted\" name");
  second->set_name("0");
  graph.add_output("y", b.make("add", {first, second}));
  std::string text = to_text(graph);
  EXPECT_EQ(to_text(*parse_graph(text)), text);
}

TEST(Text, ErrorsNameLineColumnAndWhatWasExpected) {
  EXPECT_EQ(error_of("graf @main() {}"), "line 1, column 1: expected \"graph\", found \"graf\".");
  EXPECT_EQ(error_of("graph @main(%x f32[2]) {\n}"), "line 1, column 16: expected \":\", found \"f32[2])\".");
  EXPECT_EQ(error_of("graph @main(%x: f32[2]) {\n  %0: f32[2] = neg(%y)\n  return\n}"),
            "line 2, column 20: %y is not defined above; close matches: \"%x\".");
  EXPECT_EQ(error_of("graph @main(%x: f32[2]) {\n  %0: f32[3] = neg(%x)\n  return\n}"),
            "line 2, column 3: %0 is written as f32[3]; op neg gives f32[2].");
  EXPECT_EQ(error_of("graph @main(%x: f32[2]) {\n  %x: f32[2] = neg(%x)\n  return\n}"),
            "line 2, column 3: %x is defined twice.");
  EXPECT_NE(error_of("graph @main(%x: f32[2]) {\n  %0: f32[2] = negg(%x)\n  return\n}")
                .find("line 2, column 16: there is no op \"negg\"; close matches: \"neg\""),
            std::string::npos);
  EXPECT_EQ(error_of("graph @main(%x: f99[2]) {}").substr(0, 18), "line 1, column 17:");
  EXPECT_EQ(error_of("graph @main() {\n  lane 0\n  lane 2\n  return\n}"),
            "line 3, column 8: lane 2 is out of order; the next is lane 1.");
  EXPECT_EQ(error_of("graph @main() {\n  variable %w: f32[2] buffer group odd 2\n  return\n}"),
            "line 2, column 36: expected the kind of the group (all, consecutive, orthogonal, none), found \"odd\".");
  EXPECT_EQ(error_of("graph @main() {\n  return"),
            "line 2, column 9: expected the name of an output, found the end of the text.");
}

TEST(Text, AttributeErrorsNameTheAttribute) {
  auto with = [](const std::string& attrs) {
    return error_of("graph @main(%x: f32[2]) {\n  %0: f32[2] = softmax(%x) " + attrs + "\n  return\n}");
  };
  EXPECT_EQ(with("{axis=0, axes=1}"), "line 2, column 37: op softmax has no attribute \"axes\"; it has: axis.");
  EXPECT_EQ(with("{axis=0.5}"), "line 2, column 35: expected \",\" or \"}\", found \".5}\".");
  EXPECT_EQ(with("{axis=0, axis=0}"), "line 2, column 37: attribute \"axis\" is given twice.");
  EXPECT_NE(with("{axis=4}").find("line 2, column 16: [softmax] axis 4 is out of range"), std::string::npos);
}

TEST(Text, HostFunctionsCannotBeReadBack) {
  std::string text = "graph @main(%x: f32[2]) {\n  %0: f32[2] = host_call(%x) {function=\"aten::inv\"}\n  return\n}";
  EXPECT_NE(error_of(text).find("has no text form to read back"), std::string::npos) << error_of(text);
}

TEST(Text, PrintsGradients) {
  std::string text =
      "graph @main(%x: f32[2]) {\n"
      "  variable %v: f32[2] parameter trainable\n"
      "  variable %w: f32[2] parameter trainable\n"
      "  %0: f32[2] = neg(%x) backward\n"
      "  gradient %v: %0\n"
      "  gradient %w: %0\n"
      "  return\n"
      "}\n";
  auto graph = parse_graph(text);
  verify(*graph);
  EXPECT_EQ(to_text(*graph), text);
  EXPECT_EQ(error_of("graph @main(%x: f32[2]) {\n  gradient %x: %x\n  return\n}"),
            "line 2, column 12: only variables have gradients.");
  EXPECT_EQ(error_of("graph @main() {\n  variable %w: f32[] parameter\n  gradient %w: %w\n}"),
            "line 4, column 1: expected \"gradient\" or \"return\", found \"}\".");
}

TEST(Text, AGradientIsAUseThatFollowsReplacements) {
  auto graph = parse_graph(
      "graph @main(%x: f32[2]) {\n variable %w: f32[2] parameter trainable\n %0: f32[2] = neg(%x) backward\n"
      " %1: f32[2] = exp(%x) backward\n gradient %w: %0\n return\n}");
  Op* first = graph->ops().front().get();
  EXPECT_THROW(graph->erase(first), InternalError);
  graph->replace_uses(first->output(), graph->ops().back()->output());
  EXPECT_EQ(graph->find_variable("w")->gradient(), graph->ops().back()->output());
  graph->erase(first);
  verify(*graph);
}

}  // namespace
}  // namespace aspen
