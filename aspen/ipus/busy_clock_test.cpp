#include "aspen/ipus/busy_clock.h"

#include <gtest/gtest.h>

namespace aspen {
namespace {

using std::chrono::nanoseconds;

BusyClock::Clock::time_point at(std::int64_t time) { return BusyClock::Clock::time_point(nanoseconds(time)); }

TEST(BusyClock, AddsUpWorkAndShowsItWhileItLasts) {
  BusyCell cell = 0;
  BusyClock clock(cell);
  EXPECT_EQ(busy_at(cell, at(900)), 0);
  clock.begin(at(1000));
  EXPECT_EQ(busy_at(cell, at(1000)), 0);
  EXPECT_EQ(busy_at(cell, at(1007)), 7);
  clock.end(at(1010));
  EXPECT_EQ(busy_at(cell, at(5000)), 10);
  clock.add(nanoseconds(5));
  EXPECT_EQ(busy_at(cell, at(5000)), 15);
  clock.begin(at(6001));
  EXPECT_EQ(busy_at(cell, at(6101)), 115);
  clock.end(at(6201));
  EXPECT_EQ(busy_at(cell, at(9000)), 215);
}

TEST(BusyClock, RestsWhenItIsToldTwice) {
  BusyCell cell = 0;
  BusyClock clock(cell);
  clock.begin(at(10));
  clock.end(at(20));
  clock.end(at(90));
  EXPECT_EQ(busy_at(cell, at(100)), 10);
}

TEST(BusyClock, NobodyNeedsToLook) {
  BusyClock clock;
  clock.begin(at(1));
  clock.end(at(2));
}

}  // namespace
}  // namespace aspen
