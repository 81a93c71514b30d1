#include "aspen/runtime/team_choice.h"

#include <gtest/gtest.h>

#include <vector>

namespace aspen {
namespace {

using std::chrono::microseconds;
using Clock = TeamChoice::Clock;

// Instructions that take so many microseconds with the threads and without. `apart`: what an instruction takes longer
// with the threads when the one before it ran without them.
struct Machine {
  std::vector<int> together, alone;
  int apart = 0;
  Clock::time_point now{std::chrono::hours{1}};

  void run_round(TeamChoice& choice) {
    choice.begin_round(now);
    for (std::size_t i = 0; i < together.size(); ++i) {
      const bool is_apart = i > 0 && choice.uses_team(0, i) != choice.uses_team(0, i - 1);
      now += microseconds{(choice.uses_team(0, i) ? together[i] : alone[i]) + (is_apart ? apart : 0)};
      if (choice.is_trial()) choice.end_instruction(0, i, now);
    }
    if (choice.is_trial()) choice.end_round(0, now);
  }
  std::vector<bool> settle(TeamChoice& choice) {
    do run_round(choice);
    while (choice.is_trial());
    std::vector<bool> uses;
    for (std::size_t i = 0; i < together.size(); ++i) uses.push_back(choice.uses_team(0, i));
    return uses;
  }
};

TeamChoice with_task(std::size_t num_instructions) {
  TeamChoice choice;
  choice.add_task(num_instructions);
  return choice;
}

TEST(TeamChoice, TakesWhatIsFasterForEachInstruction) {
  Machine machine{.together = {10, 30, 50, 5}, .alone = {18, 20, 90, 5}};
  TeamChoice choice = with_task(4);
  EXPECT_EQ(machine.settle(choice), (std::vector<bool>{true, false, true, false}));
}

TEST(TeamChoice, SharesLongWorkWithoutTryingItAlone) {
  Machine machine{.together = {1000, 30}, .alone = {1'000'000, 20}};
  TeamChoice choice = with_task(2);
  const auto begin = machine.now;
  EXPECT_EQ(machine.settle(choice), (std::vector<bool>{true, false}));
  EXPECT_LT(machine.now - begin, microseconds{20'000});
}

TEST(TeamChoice, KeepsToTheBestWhole) {
  // Each gains a little, and loses more where a neighbour does not.
  Machine machine{.together = {10, 30, 10, 30}, .alone = {12, 25, 12, 25}, .apart = 20};
  TeamChoice choice = with_task(4);
  EXPECT_EQ(machine.settle(choice), (std::vector<bool>{false, false, false, false}));
  machine = {.together = {10, 26, 10, 26}, .alone = {20, 25, 20, 25}, .apart = 20};
  TeamChoice another = with_task(4);
  EXPECT_EQ(machine.settle(another), (std::vector<bool>{true, true, true, true}));
}

// What the other cores are to work on comes into their caches by and by: each round takes a little less.
TEST(TeamChoice, WaitsUntilTheCachesHaveSettled) {
  Machine machine{.together = {0}, .alone = {180}};
  TeamChoice choice = with_task(1);
  int rounds_together = 0;
  do {
    machine.together = {90 + 600 / (1 + rounds_together)};
    rounds_together = choice.uses_team(0, 0) ? rounds_together + 1 : 0;
    machine.run_round(choice);
  } while (choice.is_trial());
  EXPECT_TRUE(choice.uses_team(0, 0));
}

TEST(TeamChoice, DoesNotTakeAPauseForWork) {
  Machine machine{.together = {0}, .alone = {180}};
  TeamChoice choice = with_task(1);
  int rounds_together = 0;
  do {
    machine.now += std::chrono::milliseconds{40};  // after which caches hold something else
    for (int round = 0; round < 8 && (rounds_together == 0 || choice.is_trial()); ++round) {
      machine.together = {90 + 600 / (1 + round)};
      rounds_together += choice.uses_team(0, 0) ? 1 : 0;
      machine.run_round(choice);
    }
  } while (choice.is_trial());
  EXPECT_GT(rounds_together, 8);
  EXPECT_TRUE(choice.uses_team(0, 0));
}

TEST(TeamChoice, DoesNotRelyOnOneTrial) {
  Machine machine{.together = {90}, .alone = {180}};
  TeamChoice choice = with_task(1);
  machine.settle(choice);
  machine.together = {250};  // somebody else is busy
  while (choice.uses_team(0, 0)) machine.run_round(choice);
  machine.settle(choice);
  ASSERT_FALSE(choice.uses_team(0, 0));
  machine.together = {90};
  const auto begin = machine.now;
  while (!choice.is_trial()) machine.run_round(choice);
  machine.settle(choice);
  EXPECT_TRUE(choice.uses_team(0, 0));
  EXPECT_LT(machine.now - begin, std::chrono::milliseconds{200});
}

// An update that gains by the threads, after which a step without them takes longer.
TEST(TeamChoice, LooksAtAllTasksTogether) {
  TeamChoice choice;
  const std::size_t step = choice.add_task(1), update = choice.add_task(1);
  Clock::time_point now{std::chrono::hours{1}};
  const auto run = [&](std::size_t task, int together, int alone, int more) {
    choice.begin_round(now);
    now += microseconds{(choice.uses_team(task, 0) ? together : alone) + more};
    if (!choice.is_trial()) return;
    choice.end_instruction(task, 0, now);
    choice.end_round(task, now);
  };
  for (int cycle = 0; cycle < 500; ++cycle) {
    for (int i = 0; i < 10; ++i)
      run(step, 150, 100, choice.uses_team(update, 0) && !choice.uses_team(step, 0) ? 50 : 0);
    run(update, 20, 30, 0);
  }
  EXPECT_FALSE(choice.is_trial());
  EXPECT_FALSE(choice.uses_team(step, 0));
  EXPECT_FALSE(choice.uses_team(update, 0));
}

TEST(TeamChoice, TriesAgainWhenTheMachineMayHaveChanged) {
  Machine machine{.together = {10, 30}, .alone = {18, 20}};
  TeamChoice choice = with_task(2);
  machine.settle(choice);
  machine.together = {30, 10};
  int rounds = 0, trials = 0;
  for (; rounds < 200'000 && (choice.uses_team(0, 0) || !choice.uses_team(0, 1) || choice.is_trial()); ++rounds) {
    machine.run_round(choice);
    trials += choice.is_trial() ? 1 : 0;
  }
  EXPECT_FALSE(choice.uses_team(0, 0));
  EXPECT_TRUE(choice.uses_team(0, 1));
  EXPECT_GT(rounds, 1000);
  EXPECT_LT(trials, rounds / 100);
}

}  // namespace
}  // namespace aspen
