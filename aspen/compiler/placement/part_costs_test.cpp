// The best cut is as good as the best of all cuts, counted out.
#include "aspen/compiler/placement/part_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace aspen {
namespace {

using Begins = std::vector<std::int64_t>;

// A chain with skips; about every fourth part may not begin a stage.
PartCosts random_costs(std::mt19937& random, std::int64_t count) {
  PartCosts costs{.is_training = random() % 4 != 0};
  costs.recomputes = costs.is_training && random() % 2 == 0;
  for (std::int64_t i = 0; i < count; ++i) {
    costs.parts.push_back({.forward = static_cast<double>(random() % 1000),
                           .backward = costs.is_training ? static_cast<double>(random() % 2000) : 0,
                           .variable_bytes = static_cast<double>(random() % 5000),
                           .saved_bytes = static_cast<double>(random() % 2000),
                           .scratch_bytes = static_cast<double>(random() % 4000),
                           .may_begin_stage = random() % 4 != 0});
    PartCosts::Value value{.made = i, .used = {}, .bytes = static_cast<double>(random() % 3000)};
    for (std::int64_t k = i + 1; k < count; ++k) {
      if (k == i + 1 || random() % 8 == 0) value.used.push_back(k);
    }
    costs.values.push_back(std::move(value));
  }
  return costs;
}

template <class Visit>
void for_each_cut(const PartCosts& costs, std::int64_t stages, Begins& begins, const Visit& visit) {
  if (static_cast<std::int64_t>(begins.size()) == stages) return visit(begins);
  for (std::int64_t i = begins.back() + 1; i < static_cast<std::int64_t>(costs.parts.size()); ++i) {
    if (!costs.parts[static_cast<std::size_t>(i)].may_begin_stage) continue;
    begins.push_back(i);
    for_each_cut(costs, stages, begins, visit);
    begins.pop_back();
  }
}

double fastest(const PartCosts& costs, std::int64_t stages) {
  double best = std::numeric_limits<double>::infinity();
  Begins begins{0};
  for_each_cut(costs, stages, begins, [&](const Begins& cut) { best = std::min(best, costs.slowest(cut)); });
  return best;
}

TEST(BestCut, IsWithinOnePercentOfTheBestOfAll) {
  std::mt19937 random(5);
  int found = 0;
  for (int round = 0; round < 300; ++round) {
    const PartCosts costs = random_costs(random, 2 + static_cast<std::int64_t>(random() % 10));
    const auto stages = 1 + static_cast<std::int64_t>(random() % 4);
    const Begins cut = best_cut(costs, stages);
    const double best = fastest(costs, stages);
    if (cut.empty()) {
      EXPECT_EQ(best, std::numeric_limits<double>::infinity());
      continue;
    }
    ++found;
    ASSERT_EQ(cut.size(), static_cast<std::size_t>(stages));
    EXPECT_EQ(cut[0], 0);
    for (std::size_t i = 1; i < cut.size(); ++i) {
      EXPECT_LT(cut[i - 1], cut[i]);
      EXPECT_TRUE(costs.parts[static_cast<std::size_t>(cut[i])].may_begin_stage);
    }
    EXPECT_LE(costs.slowest(cut), 1.01 * best + 1e-6);
  }
  EXPECT_GT(found, 100);
}

TEST(BestCut, OfCutsAsFastMovesTheFewestBytes) {
  PartCosts costs{.nanoseconds_per_byte = 0};
  for (int i = 0; i < 4; ++i) costs.parts.push_back({.forward = i == 1 || i == 2 ? 0.0 : 100.0});
  costs.values = {{.made = 0, .used = {1}, .bytes = 500}, {.made = 1, .used = {2}, .bytes = 10}, {2, {3}, 700}};
  EXPECT_EQ(best_cut(costs, 2), (Begins{0, 2}));
}

TEST(BestCut, CountsTheForwardPassTwiceWhereItIsComputedAgain) {
  PartCosts costs{.is_training = true};
  for (int i = 0; i < 6; ++i) costs.parts.push_back({.forward = 100, .backward = 100});
  EXPECT_EQ(best_cut(costs, 2), (Begins{0, 3}));
  costs.recomputes = true;  // 2 parts take 600, 4 take 800; 3 and 3 take 900 and 600
  EXPECT_EQ(best_cut(costs, 2), (Begins{0, 2}));
  EXPECT_EQ(costs.stage_times({0, 2}), (std::vector<double>{600, 800}));
}

TEST(BestCut, SkipsCountWhereTheyAreSentAndReceived) {
  PartCosts costs{.nanoseconds_per_byte = 1, .is_training = true};
  costs.parts.resize(3);
  costs.values = {{.made = 0, .used = {1, 2}, .bytes = 7}};
  // Sent once by the first; both others send a gradient back.
  EXPECT_EQ(costs.stage_times({0, 1, 2}), (std::vector<double>{7, 7, 7}));
  EXPECT_EQ(costs.stage_times({0, 2}), (std::vector<double>{7, 7}));
  costs.is_training = false;
  EXPECT_EQ(costs.stage_times({0, 1, 2}), (std::vector<double>{7, 0, 0}));
}

TEST(BestCut, KeepsToTheMemoryOfItsDevices) {
  std::mt19937 random(9);
  int found = 0, refused = 0;
  for (int round = 0; round < 200; ++round) {
    const PartCosts costs = random_costs(random, 8);
    const double limit = 8000 + static_cast<double>(random() % 20000);
    const Begins cut = best_cut(costs, 3, [&](std::int64_t) { return limit; });
    Begins begins{0};
    double best = std::numeric_limits<double>::infinity();
    for_each_cut(costs, 3, begins, [&](const Begins& candidate) {
      const std::vector<double> bytes = costs.stage_bytes(candidate);
      if (*std::max_element(bytes.begin(), bytes.end()) <= limit) best = std::min(best, costs.slowest(candidate));
    });
    if (cut.empty()) {
      EXPECT_EQ(best, std::numeric_limits<double>::infinity());
      ++refused;
      continue;
    }
    ++found;
    const std::vector<double> bytes = costs.stage_bytes(cut);
    EXPECT_LE(*std::max_element(bytes.begin(), bytes.end()), limit);
    EXPECT_LE(costs.slowest(cut), 1.01 * best + 1e-6);
  }
  EXPECT_GT(found, 20);
  EXPECT_GT(refused, 20);
}

TEST(BestCut, FindsNoneWhereTooFewPartsBeginStages) {
  PartCosts costs;
  costs.parts = {{.forward = 1}, {.forward = 1, .may_begin_stage = false}, {.forward = 1}};
  EXPECT_TRUE(best_cut(costs, 3).empty());
  EXPECT_EQ(best_cut(costs, 2), (Begins{0, 2}));
  EXPECT_EQ(best_cut(costs, 1), (Begins{0}));
}

}  // namespace
}  // namespace aspen
