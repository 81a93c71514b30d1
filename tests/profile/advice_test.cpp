#include "aspen/profile/advice.h"

#include <gtest/gtest.h>

#include "aspen/profile/report.h"
#include "tests/profile/example_profile.h"

namespace aspen::testing {
namespace {

using namespace profile;  // NOLINT: what these tests are about

Profile finished(const ExampleModel& model) {
  Profile profile = example_profile(model);
  finish(profile);
  return profile;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Advice, NothingIsSaidOfARunThatIsFine) {
  const Profile profile =
      finished({.devices = 1, .gradient_accumulation = 4, .slow_device = -1, .budget = std::int64_t{1} << 40});
  EXPECT_TRUE(profile.analysis.advice.empty()) << profile.analysis.advice.front().title;
}

TEST(Advice, TheLongestStageGivesToItsNeighbour) {
  const Profile profile = finished({.gradient_accumulation = 64, .slow_device = 2, .slow_factor = 2});
  const std::vector<Advice> advice = advise_on_stages(profile);
  ASSERT_FALSE(advice.empty());
  EXPECT_TRUE(contains(advice[0].title, "from stage 2 to stage")) << advice[0].title;
  EXPECT_TRUE(contains(advice[0].how, "poptorch.BeginBlock")) << advice[0].how;
  EXPECT_TRUE(contains(advice[0].how, "model.encoder.layers[")) << advice[0].how;
  // Stages of 1, 1, 2 and 1: even ones take 1.25 instead of 2.
  EXPECT_NEAR(advice[0].gain, 0.375, 0.06);
  // Two of the short ones are no longer than the long one.
  ASSERT_EQ(advice.size(), 2);
  EXPECT_TRUE(contains(advice[1].title, "Merge stages 0 and 1")) << advice[1].title;
}

// The gain that is promised for even stages is there when they are.
TEST(Advice, EvenStagesAreAsFastAsPredicted) {
  const ExampleModel uneven{.gradient_accumulation = 64, .slow_device = 2, .slow_factor = 2};
  ExampleModel even = uneven;
  even.slow_device = -1;
  const Profile before = finished(uneven), after = finished(even);
  // The even model has less to do in all: 4 instead of 5.
  const double expected = static_cast<double>(before.analysis.iteration) * (1 - advise_on_stages(before)[0].gain);
  EXPECT_NEAR(static_cast<double>(after.analysis.iteration) * 1.25, expected, 0.08 * expected);
  EXPECT_TRUE(advise_on_stages(after).empty());
}

TEST(Advice, MoreGradientAccumulationShortensTheRamp) {
  const ExampleModel model{.gradient_accumulation = 4, .slow_device = -1};
  const Profile profile = finished(model);
  const std::vector<Advice> advice = advise_on_bubble(profile);
  ASSERT_EQ(advice.size(), 1);
  EXPECT_EQ(advice[0].title, "Raise gradient accumulation from 4 to 16");
  EXPECT_TRUE(contains(advice[0].how, "options.Training.gradientAccumulation(16)")) << advice[0].how;
  EXPECT_EQ(advice[0].confidence, Confidence::kHigh);
  // As promised: time of a micro-batch before and after.
  ExampleModel more = model;
  more.gradient_accumulation = 16;
  const Profile after = finished(more);
  const double saved =
      1 - static_cast<double>(after.analysis.iteration) / 16 / (static_cast<double>(profile.analysis.iteration) / 4);
  EXPECT_NEAR(advice[0].gain, saved, 0.04);
  ExampleModel many = model;
  many.gradient_accumulation = 128;
  EXPECT_TRUE(advise_on_bubble(finished(many)).empty());
}

TEST(Advice, InferenceRaisesDeviceIterations) {
  const std::vector<Advice> advice = advise_on_bubble(
      finished({.training = false, .gradient_accumulation = 1, .device_iterations = 2, .slow_device = -1}));
  ASSERT_EQ(advice.size(), 1);
  EXPECT_TRUE(contains(advice[0].how, "options.deviceIterations(8)")) << advice[0].how;
}

TEST(Advice, MemoryOverTheBudgetComesFirst) {
  const ExampleModel model{.budget = 160 << 20};
  const Profile profile = finished(model);
  ASSERT_FALSE(profile.analysis.advice.empty());
  const Advice& first = profile.analysis.advice[0];
  EXPECT_EQ(first.topic, "memory");
  EXPECT_TRUE(contains(first.title, "Device 0 is ")) << first.title;
  EXPECT_TRUE(contains(first.why, "which fits")) << first.why;
  EXPECT_GE(first.saved_bytes, profile.analysis.memory[0].peak - model.budget);
}

// The gentlest way that is enough is named first, and does what it says.
TEST(Advice, OffloadingTheStateSavesWhatIsPromised) {
  ExampleModel model{.budget = 185 << 20};
  const Profile before = finished(model);
  const Advice& first = before.analysis.advice[0];
  EXPECT_TRUE(contains(first.how, "setOptimizerLocation")) << first.how;
  model.offloads = true;
  const Profile after = finished(model);
  EXPECT_EQ(after.analysis.memory[0].peak, before.analysis.memory[0].peak - first.saved_bytes);
  EXPECT_LE(after.analysis.memory[0].peak, model.budget);
  EXPECT_TRUE(advise_on_memory(after).empty());
}

TEST(Advice, ABudgetThatIsMetIsNoTopic) {
  EXPECT_TRUE(advise_on_memory(finished({.budget = std::int64_t{1} << 40})).empty());
  EXPECT_TRUE(advise_on_memory(finished({.budget = 0})).empty());
}

TEST(Advice, HostCallsAreNamedWithTheirSource) {
  const std::vector<Advice> advice =
      advise_on_host(finished({.layers_per_device = 1, .slow_device = -1, .calls_host = true}));
  ASSERT_EQ(advice.size(), 1);
  EXPECT_EQ(advice[0].title, "Keep host_call in encoder/sample on the device");
  EXPECT_TRUE(contains(advice[0].how, "model.py:80")) << advice[0].how;
  EXPECT_GT(advice[0].gain, 0.01);
}

TEST(Advice, WaitingForDataIsABottleneck) {
  const std::vector<Advice> advice = advise_on_loading(finished({.loading = 0.5}));
  ASSERT_EQ(advice.size(), 1);
  EXPECT_TRUE(contains(advice[0].how, "poptorch.DataLoader(")) << advice[0].how;
  EXPECT_NEAR(advice[0].gain, 1 / 3.0, 0.02);  // half a call before each call
  EXPECT_TRUE(advise_on_loading(finished({})).empty());
}

TEST(Advice, TimeBetweenShortCallsWantsMoreIterations) {
  Profile profile = finished({});
  profile.calls = {{.begin = 0, .duration = 100}, {.begin = 200, .duration = 100}, {.begin = 400, .duration = 100}};
  profile.trace = {};
  finish(profile);
  const std::vector<Advice> advice = advise_on_loading(profile);
  ASSERT_EQ(advice.size(), 1);
  EXPECT_TRUE(contains(advice[0].how, "options.deviceIterations(2)")) << advice[0].how;
}

}  // namespace
}  // namespace aspen::testing
