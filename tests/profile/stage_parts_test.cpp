#include "aspen/profile/stage_parts.h"

#include <gtest/gtest.h>

#include "aspen/profile/advice.h"

namespace aspen::testing {
namespace {

using namespace profile;  // NOLINT: what these tests are about

// Two stages: the first has three modules, which it computes again in its backward pass, the second has one. Forward
// ops take 10, backward ops 20.
Profile uneven() {
  Profile profile;
  profile.run = {.execution = "pipelined", .training = true, .gradient_accumulation = 11};
  profile.workers = {{.device = 0, .crew = 0}, {.device = 1, .crew = 1}};
  profile.tasks = {{.name = "forward of stage 0", .num_ops = 4},
                   {.name = "stage 1", .device = 1, .stage = 1, .first_op = 4, .num_ops = 2},
                   {.name = "backward of stage 0", .first_op = 6, .num_ops = 6}};
  const auto op = [&](const char* module, std::int64_t task, Pass pass, std::int64_t duration) {
    profile.ops.push_back({.module = module, .pass = pass, .task = task, .calls = 2, .duration = 2 * duration});
  };
  op("stem", 0, Pass::kForward, 10);
  op("layers/0/dense", 0, Pass::kForward, 6);
  op("layers/0", 0, Pass::kForward, 4);  // no module begins here
  op("layers/1/dense", 0, Pass::kForward, 10);
  op("head", 1, Pass::kForward, 10);
  op("head", 1, Pass::kBackward, 20);
  for (const char* module : {"layers/1/dense", "layers/0/dense", "stem"}) {
    op(module, 2, Pass::kRecompute, 10);
    op(module, 2, Pass::kBackward, 20);
  }
  profile.analysis.stages = {{.stage = 0, .device = 0, .forward = 30, .backward = 90},
                             {.stage = 1, .device = 1, .forward = 10, .backward = 20}};
  profile.analysis.iteration = 11 * 120 + 30;
  return profile;
}

TEST(StageParts, BeginWithModulesThatWereNotCalledBefore) {
  const std::vector<StagePart> parts = parts_of_stages(uneven());
  ASSERT_EQ(parts.size(), 4);
  EXPECT_EQ(parts[0].module, "stem");
  EXPECT_EQ(parts[1].module, "layers/0");  // "layers" may be a list, which nobody calls
  EXPECT_EQ(parts[2].module, "layers/1");
  EXPECT_EQ(parts[3].module, "head");
  EXPECT_EQ(parts[3].stage, 1);
  EXPECT_EQ(parts[1].forward, 10);
  EXPECT_EQ(parts[1].backward, 20);
  EXPECT_EQ(parts[1].recompute, 10);
}

TEST(StageParts, AreAsLongAsBlocksTogether) {
  Profile profile = uneven();
  profile.analysis.stages[0].forward = 33;
  profile.analysis.stages[0].backward = 180;
  const std::vector<StagePart> parts = parts_of_stages(profile);
  EXPECT_NEAR(parts[0].forward, 11, 1e-9);
  EXPECT_NEAR(parts[0].backward, 40, 1e-9);
  EXPECT_NEAR(parts[0].recompute, 20, 1e-9);
}

// What moves to the last stage is not computed again any more; what leaves it is.
TEST(StageParts, TheLastStageComputesNothingAgain) {
  const std::vector<StagePart> parts = parts_of_stages(uneven());
  EXPECT_EQ(parts[3].recompute, 10);
  EXPECT_EQ(times_of_cut(parts, {3}), (std::vector<double>{120, 30}));
  EXPECT_EQ(times_of_cut(parts, {2}), (std::vector<double>{80, 60}));
  EXPECT_EQ(times_of_cut(parts, {1}), (std::vector<double>{40, 90}));
}

TEST(StageParts, ShortStagesDoNotTellWhatIsComputedAgain) {
  Profile profile = uneven();
  for (Op& op : profile.ops) {
    if (op.pass == Pass::kRecompute) op.calls = 0;
  }
  EXPECT_EQ(parts_of_stages(profile)[3].recompute, 0);  // the others compute nothing again
  profile.analysis.stages[0].forward = 1;
  EXPECT_EQ(parts_of_stages(profile)[3].recompute, 10);
  profile.run.training = false;
  EXPECT_EQ(parts_of_stages(profile)[3].recompute, 0);
}

TEST(StageParts, TheBestCutHasTheShortestLongestStage) {
  const std::vector<StagePart> parts = parts_of_stages(uneven());
  EXPECT_EQ(best_cut(parts, 2), (std::vector<std::size_t>{2}));
  EXPECT_EQ(best_cut(parts, 3), (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(best_cut(parts, 4), (std::vector<std::size_t>{1, 2, 3}));
  EXPECT_TRUE(best_cut(parts, 5).empty());
  EXPECT_TRUE(best_cut({}, 2).empty());
  std::vector<StagePart> nameless = parts;
  nameless[2].module.clear();
  EXPECT_EQ(best_cut(nameless, 2), (std::vector<std::size_t>{1}));
}

// A little is given for a cut between two layers rather than in the middle of one, but not much.
TEST(StageParts, CutsAreMadeBetweenOuterModulesIfThatIsClose) {
  const auto part = [](const char* module, double time) { return StagePart{.module = module, .forward = time}; };
  const std::vector<StagePart> close{part("layers/0", 96), part("layers/1", 5), part("layers/1/second", 99)};
  EXPECT_EQ(best_cut(close, 2), (std::vector<std::size_t>{1}));
  const std::vector<StagePart> inner{part("layers/0", 80), part("layers/1", 40), part("layers/1/second", 90)};
  EXPECT_EQ(best_cut(inner, 2), (std::vector<std::size_t>{2}));
}

TEST(StageParts, NoneWhereDevicesHaveSeveralStages) {
  Profile profile = uneven();
  profile.analysis.stages[1].device = 0;
  EXPECT_TRUE(parts_of_stages(profile).empty());
}

TEST(Advice, TellsTheBlocksAndWhatTheyBring) {
  const std::vector<Advice> advice = advise_on_stages(uneven());
  ASSERT_EQ(advice.size(), 1);
  EXPECT_EQ(advice[0].title, "Move work from stage 0 to stage 1");
  EXPECT_NE(advice[0].how.find("poptorch.BeginBlock(model.layers[1], ipu_id=1)"), std::string::npos) << advice[0].how;
  // Ten of eleven micro-batches at 120 and 80 each, and one that passes through both stages.
  EXPECT_NEAR(advice[0].gain, 1 - (10 * 80 + 140) / (10 * 120 + 150.0), 1e-9);
}

// Stages on one thread take turns: it does not matter which of them has the work.
TEST(Advice, NothingIsGainedBetweenDevicesOfOneThread) {
  Profile profile = uneven();
  profile.workers[1].crew = 0;
  for (Op& op : profile.ops) {
    if (op.pass == Pass::kRecompute) op.calls = 0;  // or the last stage would do less
  }
  profile.analysis.stages[0].backward = 60;
  EXPECT_TRUE(advise_on_stages(profile).empty());
}

TEST(Advice, NamesThatAreNotPythonsAreLookedUp) {
  Profile profile = uneven();
  for (Op& op : profile.ops) {
    if (op.module == "layers/1/dense") op.module = "layers/in put";
  }
  const std::vector<Advice> advice = advise_on_stages(profile);
  ASSERT_FALSE(advice.empty());
  EXPECT_NE(advice[0].how.find("model.layers.get_submodule('in put')"), std::string::npos) << advice[0].how;
}

TEST(Advice, WithoutModulesItTellsHowMuchShouldMove) {
  Profile profile = uneven();
  for (Op& op : profile.ops) op.calls = 0;
  const std::vector<Advice> advice = advise_on_stages(profile);
  ASSERT_FALSE(advice.empty());
  EXPECT_EQ(advice[0].confidence, Confidence::kLow);
  EXPECT_NE(advice[0].how.find("Begin the block of stage 1 earlier in the model"), std::string::npos) << advice[0].how;
}

}  // namespace
}  // namespace aspen::testing
