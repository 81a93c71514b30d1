#include "aspen/ops/marker/marker.h"

#include <gtest/gtest.h>

#include <numeric>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/base/error.h"
#include "aspen/ops/marker/format_tensor.h"
#include "tests/support/interpret.h"

namespace aspen::testing {
namespace {

std::string text_of(const HostTensor& tensor, const PrintAttrs& attrs = {}) {
  return format_tensor(tensor.type(), tensor.data(), attrs);
}

HostTensor counting(Shape shape) {
  HostTensor tensor({DType::kI32, std::move(shape)});
  for (std::int64_t i = 0; i < tensor.size(); ++i) tensor.set(i, static_cast<double>(i));
  return tensor;
}

TEST(Print, NestsRowsOnePerLine) {
  EXPECT_EQ(text_of(counting({2, 3})), "(\n (0, 1, 2)\n (3, 4, 5)\n)");
  EXPECT_EQ(text_of(counting({2, 2, 2})), "(\n (\n  (0, 1)\n  (2, 3)\n )\n (\n  (4, 5)\n  (6, 7)\n )\n)");
  EXPECT_EQ(text_of(counting({3})), "(0, 1, 2)");
  EXPECT_EQ(text_of(counting({})), "0");
}

TEST(Print, CountsAllDigitsOfANumber) {
  HostTensor x({DType::kF32, {3}}, {1, -0.25, 10});
  EXPECT_EQ(text_of(x), "( 1.00, -0.25, 10.00)");
  EXPECT_EQ(text_of(HostTensor({DType::kF32, {2}}, {1, 0.5})), "(1.000, 0.500)");
  EXPECT_EQ(text_of(x, {.digits = 6}), "( 1.0000, -0.2500, 10.0000)");
  EXPECT_EQ(text_of(x, {.digits = 0}), "(1, -0.25, 10)");
  EXPECT_EQ(text_of(x, {.digits = 3, .float_format = "scientific"}), "( 1.00e+00, -2.50e-01,  1.00e+01)");
  HostTensor wide({DType::kF32, {2}}, {1, 1e6});
  EXPECT_EQ(text_of(wide), "(1.000e+00, 1.000e+06)");
  EXPECT_EQ(text_of(wide, {.digits = 8, .float_format = "fixed"}), "(      1.0, 1000000.0)");
  EXPECT_EQ(text_of(wide, {.digits = 2, .float_format = "fixed"}), "(      1, 1000000)");
  EXPECT_EQ(text_of(HostTensor({DType::kBool, {2}}, {0, 1})), "(false,  true)");
}

TEST(Print, SummarisesAndSplits) {
  EXPECT_EQ(text_of(counting({20}), {.summarise_threshold = 10, .edge_items = 2}), "( 0,  1, ..., 18, 19)");
  EXPECT_EQ(text_of(counting({6, 1}), {.summarise_threshold = 4, .edge_items = 1}), "(\n (0)\n ...\n (5)\n)");
  EXPECT_EQ(text_of(counting({8}), {.max_line_width = 12}), "(0, 1, 2, 3,\n  4, 5, 6, 7)");
  EXPECT_EQ(text_of(counting({1, 6}), {.max_line_width = 11}), "(\n (0, 1, 2,\n   3, 4, 5)\n)");
  EXPECT_EQ(text_of(counting({3}), {.separator = "; ", .open_bracket = "[", .close_bracket = "]"}), "[0; 1; 2]");
}

TEST(Print, WritesToStandardErrorForwardAndBackward) {
  HostTensor x({DType::kF32, {2}}, {1, 2}), g({DType::kF32, {2}}, {3, 4});
  auto backend = make_reference_backend();
  Attrs attrs = Attrs::of(PrintAttrs{.title = "x", .digits = 2});
  ::testing::internal::CaptureStderr();
  std::vector<HostTensor> gradients = run_gradient(*backend, "print", {x}, {g}, attrs);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "x: (1.0, 2.0)\nx_gradient: (3.0, 4.0)\n");
  EXPECT_EQ(gradients[0], g);
}

TEST(Print, RejectsUnknownFormats) {
  HostTensor x({DType::kF32, {2}});
  EXPECT_THROW(run_op(*make_reference_backend(), "print", {x}, Attrs::of(PrintAttrs{.float_format = "round"})),
               UserError);
}

TEST(Assign, StoresWhatLaterRunsRead) {
  Graph graph;
  Builder b(graph);
  Variable* counter = graph.add_variable("counter", VariableKind::kBuffer, {DType::kF32, {2}});
  counter->initial = 5;
  Value* next = b.make("neg", {counter->value.get()});
  b.emit("assign", {counter->value.get(), next});
  Value* seen = b.make("abs", {counter->value.get()});
  Interpretation result = Interpreter(graph, *make_reference_backend())({});
  EXPECT_EQ(result.values.at(seen).numbers(), (std::vector<double>{5, 5}));
  EXPECT_EQ(result.variables.at("counter").numbers(), (std::vector<double>{-5, -5}));
}

TEST(Assign, RejectsAnotherType) {
  Graph graph;
  Builder b(graph);
  Variable* variable = graph.add_variable("v", VariableKind::kBuffer, {DType::kF32, {2}});
  Value* x = graph.add_input("x", {DType::kF32, {3}});
  EXPECT_THROW(b.emit("assign", {variable->value.get(), x}), UserError);
}

}  // namespace
}  // namespace aspen::testing
