// Program::checks_floats: the first op that makes an infinity or NaN is named, those that pass one on are not.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "aspen/base/error.h"
#include "pipeline_program.h"

namespace aspen::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// y = -f(x), where f is "op"; written in place.
std::shared_ptr<Program> checked_program(float (*function)(float)) {
  auto program = std::make_shared<Program>();
  program->checks_floats = true;
  program->inputs = {{"x", tensor_type()}};
  program->outputs = {{"y", tensor_type()}};
  program->devices = {{.scratch_bytes = kSpace}};
  program->lanes = {{}};
  BufferRef x{.arena = Arena::kScratch, .bytes = kBytes};
  Task task{.inputs = {{.input = 0, .to = x}}, .outputs = {{.output = 0, .from = x}}};
  auto unary = [&](const char* op, float (*f)(float)) {
    Instruction result = instruction(op, {x, {.absent = true}}, {x}, [f](const KernelArgs& args) {
      for (std::int64_t i = 0; i < kWidth; ++i) output(args, 0)[i] = f(input(args, 0)[i]);
    });
    result.request.inputs = {{tensor_type()}, {tensor_type()}};
    result.request.outputs = {tensor_type()};
    return result;
  };
  task.instructions.push_back(unary("op", function));
  task.instructions.push_back(unary("negate", [](float v) { return -v; }));
  program->step.push_back(std::move(task));
  return program;
}

std::string message_of(std::shared_ptr<Program> program, float x) {
  Executor executor(std::move(program));
  V values(kWidth, 1.0f);
  values[7] = x;
  try {
    run_all(executor, values, 1);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

TEST(FloatCheck, NamesTheOpThatMadeTheValue) {
  std::string text = message_of(checked_program([](float v) { return 1 / v; }), 0.0f);
  EXPECT_NE(text.find("element 7 of output 0 (f32[20]) is infinity"), std::string::npos) << text;
  EXPECT_NE(text.find("in op op, captured at model.py:3 of micro-batch 0"), std::string::npos) << text;
  EXPECT_NE(message_of(checked_program([](float v) { return std::log(v); }), 0.0f).find("minus infinity"),
            std::string::npos);
  EXPECT_NE(message_of(checked_program([](float v) { return std::sqrt(v); }), -1.0f).find("is NaN"), std::string::npos);
}

TEST(FloatCheck, LetsFiniteValuesAndWhatIsPassedOnThrough) {
  EXPECT_EQ(message_of(checked_program([](float v) { return 1 / v; }), 2.0f), "");
  EXPECT_EQ(message_of(checked_program([](float v) { return v; }), kInfinity), "");
}

TEST(FloatCheck, NamesTheOpThatMadeNanOfInfinities) {
  std::string text = message_of(checked_program([](float v) { return v - v; }), kInfinity);
  EXPECT_NE(text.find("element 7 of output 0 (f32[20]) is NaN, although no input is NaN"), std::string::npos) << text;
  EXPECT_NE(message_of(checked_program([](float v) { return v * 0; }), -kInfinity).find("is NaN"), std::string::npos);
  EXPECT_EQ(message_of(checked_program([](float v) { return v * 2; }), NAN), "");  // passes one on
}

TEST(FloatCheck, RefusesOrderedComparisonsWithNan) {
  for (const char* op : {"lt", "le", "gt", "ge", "eq", "ne"}) {
    auto program = checked_program([](float v) { return v; });
    program->step[0].instructions[0].request.op = op;
    const std::string text = message_of(program, NAN);
    const bool is_ordered = std::string(op) != "eq" && std::string(op) != "ne";
    EXPECT_EQ(text.find("element 7 of input 0 (f32[20]) of an ordered comparison is NaN") != std::string::npos,
              is_ordered)
        << op << ": " << text;
    EXPECT_EQ(message_of(program, kInfinity), "") << op;
  }
}

TEST(FloatCheck, IsOffUnlessAsked) {
  auto program = checked_program([](float v) { return 1 / v; });
  program->checks_floats = false;
  EXPECT_EQ(message_of(program, 0.0f), "");
}

TEST(FloatCheck, ExemptsOpsWithoutFloatingInputs) {
  auto program = checked_program([](float) { return kInfinity; });
  program->step[0].instructions[0].inputs.clear();
  program->step[0].instructions[0].request.inputs.clear();
  program->step[0].instructions[0].kernel = instruction("full", {}, {}, [](const KernelArgs& args) {
                                              std::fill_n(output(args, 0), kWidth, kInfinity);
                                            }).kernel;
  EXPECT_EQ(message_of(program, 0.0f), "");
}

TEST(FloatCheck, SeesHalves) {
  auto program = std::make_shared<Program>();
  program->checks_floats = true;
  TensorType type{DType::kF16, {2}};
  program->inputs = {{"x", type}};
  program->devices = {{.scratch_bytes = 64}};
  program->lanes = {{}};
  BufferRef x{.arena = Arena::kScratch, .bytes = 4};
  Task task{.inputs = {{.input = 0, .to = x}}};
  Instruction square = instruction("square", {x}, {x}, [](const KernelArgs& args) {
    auto* values = static_cast<Half*>(args.outputs[0]);
    for (int i = 0; i < 2; ++i) values[i] = static_cast<Half>(values[i] * values[i]);
  });
  square.request.inputs = {{type}};
  square.request.outputs = {type};
  task.instructions.push_back(std::move(square));
  program->step.push_back(std::move(task));
  Executor executor(program);
  std::vector<Half> values = {static_cast<Half>(2), static_cast<Half>(60000)};
  EXPECT_THROW(executor.run({.inputs = {values.data()}}), UserError);
  values[1] = static_cast<Half>(3);
  executor.run({.inputs = {values.data()}});
}

}  // namespace
}  // namespace aspen::testing
