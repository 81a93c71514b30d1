#include "aspen/base/log_repeats.h"

#include <gtest/gtest.h>

namespace aspen::log {
namespace {

// The limit is one for the whole process: later tests must find none.
class LogRepeats : public ::testing::Test {
 protected:
  void TearDown() override { limit_repeats(std::nullopt); }
};

TEST_F(LogRepeats, LinesAreWantedSoManyTimes) {
  limit_repeats(2);
  EXPECT_TRUE(is_wanted("a"));
  EXPECT_TRUE(is_wanted("b"));
  EXPECT_TRUE(is_wanted("a"));
  EXPECT_FALSE(is_wanted("a"));
  EXPECT_TRUE(is_wanted("b"));
  EXPECT_FALSE(is_wanted("a"));
}

TEST_F(LogRepeats, CountBeginsAnewWithEachLimit) {
  limit_repeats(1);
  EXPECT_TRUE(is_wanted("a"));
  EXPECT_FALSE(is_wanted("a"));
  limit_repeats(1);
  EXPECT_TRUE(is_wanted("a"));
}

TEST_F(LogRepeats, WithoutALimitAllAreWanted) {
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(is_wanted("a"));
}

}  // namespace
}  // namespace aspen::log
