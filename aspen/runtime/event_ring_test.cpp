#include "aspen/runtime/event_ring.h"

#include <gtest/gtest.h>

namespace aspen {
namespace {

std::vector<int> contents(const EventRing<int>& ring) {
  std::vector<int> found;
  ring.for_each([&](int event) { found.push_back(event); });
  return found;
}

EventRing<int> filled(std::size_t capacity, int count) {
  EventRing<int> ring(capacity);
  for (int i = 0; i < count; ++i) ring.push(i);
  return ring;
}

TEST(EventRing, HoldsWhatWasWrittenUntilItIsFull) {
  EXPECT_EQ(contents(filled(4, 0)), (std::vector<int>{}));
  EXPECT_EQ(contents(filled(4, 3)), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(contents(filled(4, 4)), (std::vector<int>{0, 1, 2, 3}));
}

TEST(EventRing, TheLatestTakeThePlaceOfTheOldest) {
  const EventRing<int> ring = filled(4, 11);
  EXPECT_EQ(contents(ring), (std::vector<int>{7, 8, 9, 10}));
  EXPECT_FALSE(ring.has(6));
  EXPECT_TRUE(ring.has(7));
  EXPECT_EQ(ring[9], 9);
  EXPECT_FALSE(ring.has(11));
}

TEST(EventRing, WhatIsKeptStaysAndTheRestGoesRound) {
  EventRing<int> ring = filled(8, 3);
  ring.keep();
  for (int i = 3; i < 20; ++i) ring.push(i);
  EXPECT_EQ(contents(ring), (std::vector<int>{0, 1, 2, 15, 16, 17, 18, 19}));
  EXPECT_TRUE(ring.has(2));
  EXPECT_FALSE(ring.has(3));
  EXPECT_EQ(ring[2], 2);
  EXPECT_EQ(ring[17], 17);
}

TEST(EventRing, KeepsAtMostHalf) {
  EventRing<int> ring = filled(8, 7);
  ring.keep();
  EXPECT_EQ(contents(ring), (std::vector<int>{0, 1, 2, 3, 4, 5, 6}));
  for (int i = 7; i < 30; ++i) ring.push(i);
  EXPECT_EQ(contents(ring), (std::vector<int>{0, 1, 2, 3, 26, 27, 28, 29}));
}

TEST(EventRing, KeepsNothingOnceTheBeginIsGone) {
  EventRing<int> ring = filled(4, 5);
  ring.keep();
  EXPECT_EQ(contents(ring), (std::vector<int>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace aspen
