// Programs that are stored go on as if they had not been.
#include <gtest/gtest.h>

#include "aspen/program_file/program_file.h"
#include "example_programs.h"
#include "tests/support/backends.h"

namespace aspen::testing {
namespace {

TEST(RoundTrip, EveryOpIsMadeAgain) {
  for (const auto& backend : built_backends()) {
    const auto examples = op_programs(*backend);
    EXPECT_GT(examples.size(), 250u) << backend->name();
    for (const ExampleProgram& example : examples) {
      const std::vector<std::byte> bytes = encode_program(*example.program);
      const std::shared_ptr<Program> again = decode_program(bytes, *backend, nullptr);
      EXPECT_EQ(encode_program(*again), bytes) << example.name;
      Executor before(example.program), after(again);
      ExampleCall call(*example.program, example.range, 5);
      EXPECT_EQ(call.run(before), call.run(after)) << backend->name() << ", " << example.name;
    }
  }
}

TEST(RoundTrip, TrainingGoesOnBitForBit) {
  for (const auto& backend : built_backends()) {
    for (const ExampleProgram& example : training_programs(*backend)) {
      SCOPED_TRACE(backend->name() + ", " + example.name);
      Executor original(example.program);
      fill_variables(original);
      const auto first = ExampleCall(*example.program, {}, 11).run(original);
      ExampleCall(*example.program, {}, 22).run(original);
      const Sections file = stored(original, *backend);
      Executor loaded(std::shared_ptr<Program>(load_program(file, *backend)));
      restore(loaded, load_state(file));
      for (std::uint64_t seed : {33, 44, 55}) {
        const auto expected = ExampleCall(*example.program, {}, seed).run(original);
        EXPECT_EQ(ExampleCall(*example.program, {}, seed).run(loaded), expected);
        EXPECT_TRUE(expected != first || !example.program->has_transfers);
      }
      EXPECT_EQ(state_of(loaded).variables, state_of(original).variables);
      EXPECT_EQ(loaded.step(), original.step());
      EXPECT_EQ(loaded.seed(), 42u);
    }
  }
}

// The running mean of each replica is its own, and the host sees that of the first.
TEST(RoundTrip, WhatReplicasKeepToThemselvesIsStored) {
  const auto backend = built_backends().front();
  for (const ExampleProgram& example : training_programs(*backend)) {
    if (example.name != "replicas") continue;
    Executor executor(example.program);
    fill_variables(executor);
    const std::size_t bytes = executor.host_bytes("mean");
    EXPECT_EQ(state_of(executor).variables.at("mean").size(), bytes);
    ExampleCall(*example.program, {}, 11).run(executor);
    const ProgramState state = state_of(executor);
    EXPECT_EQ(state.variables.at("mean").size(), 2 * bytes);
    EXPECT_EQ(state.variables.at("a").size(), executor.host_bytes("a"));
    Executor other(example.program);
    restore(other, state);
    EXPECT_EQ(state_of(other).variables, state.variables);
  }
}

TEST(RoundTrip, AStateOfAnotherProgramIsRefused) {
  const auto backend = built_backends().front();
  const auto examples = training_programs(*backend);
  Executor executor(examples.front().program);
  const auto complaint = [&](const ProgramState& state) -> std::string {
    try {
      restore(executor, state);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(complaint({.variables = {{"a", std::vector<std::byte>(7)}}}),
            "variable \"a\" is f32[6, 8] on each of 1 replicas and takes 192 or 192 bytes, not 7.");
  EXPECT_NE(complaint({.variables = {{"weight", {}}}}).find("the program has no variable \"weight\""),
            std::string::npos);
}

}  // namespace
}  // namespace aspen::testing
