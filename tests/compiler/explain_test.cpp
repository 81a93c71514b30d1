// What the log says of a program that was compiled, and of its runs.
#include "aspen/compiler/explain.h"

#include "aspen/base/log.h"
#include "harness.h"

namespace aspen::testing {
namespace {

using Lines = std::vector<std::string>;

const char* const kModel = R"(graph @main(%x: f32[40, 100]) {
  %0: f32[100, 40] = transpose(%x) {permutation=[1, 0]}
  %1: f32[100, 40] = sin(%0)
  %2: f32[100, 40] = mul(%1, %0)
  %3: f32[100, 40] = sin(%2)
  %4: f32[100, 40] = mul(%3, %0)
  return t: %0, a: %2, b: %4
})";

CompileOptions with_groups() { return {.min_group_elements = 1}; }

TEST(Explain, NamesWhatRunsAsOneAndWhatIsReordered) {
  Session session(kModel, with_groups());
  EXPECT_EQ(explain_fusion(session.graph()), (Lines{"1 x sin, mul, sin, mul"}));
  EXPECT_EQ(explain_reorders(session.graph()), (Lines{"1 x f32[40, 100] by (1, 0): 2.0 us"}));
}

TEST(Explain, GuessesTheTimeOfEachDevice) {
  Session session(kModel, with_groups());
  const DeviceGuess guess = guessed_nanoseconds(session.program(), 0);
  EXPECT_GT(guess.micro_batch, 2'000);  // the transpose alone
  EXPECT_EQ(guess.update, 0);
  EXPECT_EQ(guessed_nanoseconds_of_step(session.program(), 3), 3 * guess.micro_batch);
  EXPECT_EQ(explain_time(session.program()),
            (Lines{fmt::format("device 0: {:.3f} ms for each micro-batch, 0.000 ms for an update",
                               guess.micro_batch / 1e6)}));
}

TEST(Explain, IsLoggedWithTheTimeThatAStepTook) {
  const log::Level before = log::level();
  log::set_level(log::Level::kDebug);
  ::testing::internal::CaptureStderr();
  Session session(kModel, with_groups());
  session.run({std::vector<float>(4'000, 0.5f)});
  const std::string text = ::testing::internal::GetCapturedStderr();
  log::set_level(before);
  for (const char* line : {"[program] runs as one: 1 x sin, mul", "[program] reordered: 1 x f32[40, 100]",
                           "[program] guessed from shapes, device 0", "[run] a step took "}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << " is not in\n" << text;
  }
}

}  // namespace
}  // namespace aspen::testing
