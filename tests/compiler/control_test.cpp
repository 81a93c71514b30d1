// Loops, branches and calls from text to results: the interpreter, which knows nothing of plans, is the judge.
#include "aspen/compiler/ir/printer.h"
#include "aspen/compiler/ir/verifier.h"
#include "harness.h"
#include "tests/support/interpret.h"

namespace aspen::testing {
namespace {

// h' = tanh(h w + x) with dropout, of `count` turns.
std::string recurrence(int count, bool reverse) {
  return fmt::format(R"(graph @main(%h0: f32[1, 4], %xs: f32[{0}, 4], %w: f32[4, 4]) {{
    %zero: i32[] = full() {{dtype=i32, shape=[], value=0}}
    %h: f32[1, 4], %n: i32[], %hs: f32[{0}, 1, 4], %olds: f32[{0}, 1, 4] = loop(%h0, %zero, %xs, %w) {{count={0}, carried=2, sliced=1, reverse={1}, body=graph @turn(%h: f32[1, 4], %n: i32[], %x: f32[4], %w: f32[4, 4]) {{
        %one: i32[] = full() {{dtype=i32, shape=[], value=1}}
        %0: f32[1, 4] = dot(%h, %w)
        %1: f32[1, 4] = add(%0, %x)
        %2: f32[1, 4] = tanh(%1)
        %3: f32[1, 4] = dropout(%2) {{p=0.25, stream=3}}
        %4: i32[] = add(%n, %one)
        %5: f32[1, 4] = mul(%h, %3)
        return h: %3, n: %4, hs: %5, olds: %h
      }}}}
    return h: %h, n: %n, hs: %hs, olds: %olds
  }})",
                     count, reverse);
}

void expect_interpreted(const std::string& text, std::size_t num_outputs) {
  auto graph = parse_graph(text);
  verify(*graph);
  EXPECT_EQ(to_text(*parse_graph(to_text(*graph))), to_text(*graph));
  Tensors known;
  std::vector<HostTensor> inputs;
  for (const auto& input : graph->inputs()) {
    inputs.push_back(random_tensor(input->type(), {}, inputs.size() + 1));
    known.emplace(input.get(), inputs.back());
  }
  const Interpretation wanted = Interpreter(*graph, reference())(known);
  std::vector<HostTensor> expected, outputs;
  for (const auto& output : graph->outputs()) expected.push_back(wanted.values.at(output.value));

  auto compiled = parse_graph(text);
  std::shared_ptr<const Program> program = compile(*compiled, {}, reference());
  Executor executor(program, {});
  RunRequest request;
  for (const HostTensor& input : inputs) request.inputs.push_back(input.data());
  for (const ProgramTensor& output : program->outputs) outputs.emplace_back(output.type);
  for (HostTensor& output : outputs) request.outputs.push_back({.data = output.data()});
  executor.run(request);
  ASSERT_EQ(outputs.size(), num_outputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) EXPECT_EQ(outputs[i].numbers(), expected[i].numbers()) << i;
}

TEST(Control, LoopsCarryValuesAndStackRows) {
  for (int count : {0, 1, 2, 9}) {
    for (bool reverse : {false, true}) {
      SCOPED_TRACE(fmt::format("{} turns, reverse {}", count, reverse));
      expect_interpreted(recurrence(count, reverse), 4);
    }
  }
}

TEST(Control, CarriedValuesMayChangePlaces) {
  expect_interpreted(R"(graph @main(%a: f32[3], %b: f32[3]) {
    %x: f32[3], %y: f32[3], %z: f32[3] = loop(%a, %b, %a) {count=5, carried=3, body=graph @turn(%a: f32[3], %b: f32[3], %c: f32[3]) {
        return a: %b, b: %c, c: %a
      }}
    return x: %x, y: %y, z: %z
  })",
                     3);
}

TEST(Control, AResultMayBeAnOperandAndStandForSeveral) {
  expect_interpreted(R"(graph @main(%a: f32[3], %t: bool[]) {
    %x: f32[3], %y: f32[3], %z: f32[3] = cond(%t, %a) {then_body=graph @then(%a: f32[3]) {
        %0: f32[3] = sin(%a)
        return x: %a, y: %0, z: %0
      }, else_body=graph @else(%a: f32[3]) {
        return x: %a, y: %a, z: %a
      }}
    return x: %x, y: %y, z: %z
  })",
                     3);
}

TEST(Control, EmptyTensorsHaveTheirPlaces) {
  expect_interpreted(R"(graph @main(%a: f32[0, 3], %b: f32[2], %c: f32[4, 0]) {
    %x: f32[0, 3], %y: f32[2], %z: f32[4, 0] = loop(%a, %b, %c) {count=4, carried=2, sliced=1, body=graph @turn(%a: f32[0, 3], %b: f32[2], %c: f32[0]) {
        %0: f32[0, 3] = sin(%a)
        %1: f32[2] = sin(%b)
        %2: f32[0] = sin(%c)
        return a: %0, b: %1, c: %2
      }}
    return x: %x, y: %y, z: %z
  })",
                     3);
}

std::size_t bytes_of_loop(int count) {
  auto graph = parse_graph(fmt::format(R"(graph @main(%a: f32[64, 64]) {{
    %x: f32[64, 64] = loop(%a) {{count={}, carried=1, body=graph @turn(%a: f32[64, 64]) {{
        %0: f32[64, 64] = dot(%a, %a)
        %1: f32[64, 64] = sin(%0)
        %2: f32[64, 64] = dot(%1, %a)
        return a: %2
      }}}}
    return x: %x
  }})",
                                       count));
  return planned_bytes(*compile(*graph, {}, reference()), 0);
}

TEST(Control, MemoryDoesNotDependOnTheNumberOfTurns) { EXPECT_EQ(bytes_of_loop(3), bytes_of_loop(3000)); }

TEST(Control, CallsOfEqualBodiesShareAKernel) {
  const char* call = R"(call(%{0}) {{stream=1, body=graph @layer(%x: f32[3]) {{
        %0: f32[3] = sin(%x)
        return y: %0
      }}}})";
  auto graph =
      parse_graph(fmt::format("graph @main(%a: f32[3]) {{\n %b: f32[3] = {}\n %c: f32[3] = {}\n return c: %c\n}}",
                              fmt::format(fmt::runtime(call), "a"), fmt::format(fmt::runtime(call), "b")));
  auto program = compile(*graph, {}, reference());
  const auto& instructions = program->step.front().instructions;
  ASSERT_EQ(instructions.size(), 2u);
  EXPECT_EQ(instructions[0].kernel, instructions[1].kernel);
}

void expect_error(const std::string& text, const std::string& message) {
  try {
    parse_graph(text);
    FAIL() << "no error";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find(message), std::string::npos) << e.what();
  }
}

std::string loop(const char* attributes, const char* body) {
  return fmt::format(
      "graph @main(%a: f32[2], %x: f32[3, 2]) {{\n %y: f32[2] = loop(%a, %x) {{{}, body={}}}\n return\n}}", attributes,
      body);
}

TEST(Control, WhatDoesNotFitIsAnError) {
  const char* body = "graph @turn(%a: f32[2], %x: f32[2]) {\n return a: %x\n}";
  expect_error(loop("count=4, carried=1, sliced=1", body), "must have one row for each of 4 turns");
  expect_error(loop("count=3, carried=1, sliced=0", body), "input 1 of graph turn is f32[2] and gets f32[3, 2]");
  expect_error(loop("count=3, carried=2, sliced=1", body), "2 carried and 1 sliced operands of 2");
  expect_error(loop("count=-1, carried=1, sliced=1", body), "-1 turns");
  expect_error(loop("count=3, carried=1, sliced=1", "graph @turn(%a: f32[2]) {\n return a: %a\n}"),
               "body takes 1 values and gets 2");
  expect_error(
      loop("count=3, carried=1, sliced=1",
           "graph @turn(%a: f32[2], %x: f32[2]) {\n %0: f32[1, 2] = reshape(%x) {shape=[1, 2]}\n return a: %0\n}"),
      "carried value 0 is f32[2] and becomes f32[1, 2]");
  expect_error(loop("count=3, carried=1, sliced=1",
                    "graph @turn(%a: f32[2], %x: f32[2]) {\n variable %w: f32[2] buffer\n return a: %w\n}"),
               "body has variables");
  expect_error(loop("count=3, carried=1, sliced=1", "graph @turn(%a: f32[2], %x: f32[2]) {\n return a: %y\n}"),
               "%y is not defined above");
  expect_error(
      "graph @main(%t: bool[2]) {\n cond(%t) {then_body=graph @a() {\n return\n}, else_body=graph @b() {\n "
      "return\n}}\n return\n}",
      "must be one bool");
  expect_error(
      "graph @main(%t: bool[], %x: f32[2]) {\n %y: f32[2] = cond(%t, %x) {then_body=graph @a(%x: f32[2]) {\n "
      "return y: %x\n}, else_body=graph @b(%x: f32[2]) {\n return\n}}\n return\n}",
      "the bodies return values of different types");
}

}  // namespace
}  // namespace aspen::testing
