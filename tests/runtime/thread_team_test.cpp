#include "aspen/runtime/thread_team.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cfenv>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>

#include "aspen/base/error.h"

namespace aspen {
namespace {

class Teams : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Teams, RunEveryChunkOnce) {
  auto team = make_thread_team(GetParam());
  EXPECT_EQ(team->num_threads(), GetParam());
  for (std::int64_t count : {0, 1, 2, 3, 7, 1000}) {
    std::vector<int> runs(static_cast<std::size_t>(count), 0);
    team->run(count, [&](std::int64_t chunk) { ++runs[static_cast<std::size_t>(chunk)]; });
    EXPECT_EQ(runs, std::vector<int>(static_cast<std::size_t>(count), 1));
  }
}

// What a chunk wrote is there when run() returns, and what was written before run() is there for the chunks.
TEST_P(Teams, HandOverWhatWasWritten) {
  auto team = make_thread_team(GetParam());
  std::vector<std::int64_t> data(16, 0);
  for (std::int64_t round = 0; round < 20000; ++round) {
    data[static_cast<std::size_t>(round % 16)] += 1;
    team->run(16, [&](std::int64_t chunk) { data[static_cast<std::size_t>(chunk)] += 1; });
  }
  EXPECT_EQ(std::accumulate(data.begin(), data.end(), std::int64_t{0}), 17 * 20000);
}

TEST_P(Teams, WakeUpAfterALongPause) {
  auto team = make_thread_team(GetParam());
  std::atomic<int> runs{0};
  for (int round = 0; round < 20; ++round) {
    team->run(4, [&](std::int64_t) { ++runs; });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(runs, 80);
}

// As if the caller had done the work himself.
TEST_P(Teams, RaiseTheOverflowOfAnyChunkWithTheCaller) {
  auto team = make_thread_team(GetParam());
  for (std::int64_t guilty = -1; guilty < 16; ++guilty) {
    std::feclearexcept(FE_OVERFLOW);
    team->run(16, [&](std::int64_t chunk) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));  // so that every thread has its share
      volatile float large = 3e38f;
      if (chunk == guilty) large = large * 10;
    });
    EXPECT_EQ(std::fetestexcept(FE_OVERFLOW) != 0, guilty >= 0) << guilty;
  }
  std::feclearexcept(FE_OVERFLOW);
}

TEST_P(Teams, ThrowTheErrorOfTheLowestChunkAndGoOn) {
  auto team = make_thread_team(GetParam());
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> runs{0};
    auto work = [&](std::int64_t chunk) {
      ++runs;
      if (chunk == 3 || chunk == 9) throw std::runtime_error("chunk " + std::to_string(chunk));
    };
    try {
      team->run(12, work);
      FAIL() << "no error arrived";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "chunk 3");
    }
    EXPECT_EQ(runs, 12);
  }
  int runs = 0;
  team->run(1, [&](std::int64_t) { ++runs; });
  EXPECT_EQ(runs, 1);
}

// Memory may go by the numbers of threads: no two chunks that run at the same time have the same one, also when jobs
// follow each other so fast that helpers come late.
TEST_P(Teams, NumbersOfThreadsAreTheirOwn) {
  auto team = make_thread_team(GetParam());
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t count = 1 + round % 9;
    const std::size_t most = std::min(GetParam(), static_cast<std::size_t>(count));
    std::vector<std::atomic<int>> holders(GetParam());
    std::atomic<int> wrong{0};
    team->run(count, [&](std::int64_t) {
      const std::size_t number = team->this_thread();
      if (number >= most || holders[number].fetch_add(1) != 0) ++wrong;
      if (number < GetParam()) holders[number].fetch_sub(1);
    });
    ASSERT_EQ(wrong, 0) << count << " chunks";
  }
}

TEST(ThreadTeam, HelpersMayCallAnotherTeam) {
  auto outer = make_thread_team(3);
  std::vector<std::unique_ptr<ThreadTeam>> inner;
  for (int i = 0; i < 3; ++i) inner.push_back(make_thread_team(2));
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> wrong{0};
    outer->run(3, [&](std::int64_t chunk) {
      ThreadTeam& team = *inner[static_cast<std::size_t>(chunk)];
      const std::size_t before = outer->this_thread();
      team.run(4, [&](std::int64_t) { wrong += team.this_thread() < 2 ? 0 : 1; });
      wrong += outer->this_thread() == before ? 0 : 1;
    });
    ASSERT_EQ(wrong, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Teams, ::testing::Values(1, 2, 3, 8), ::testing::PrintToStringParamName());

TEST(ThreadTeam, UsesItsThreadsAtOnce) {
  auto team = make_thread_team(3);
  std::atomic<int> inside{0};
  team->run(3, [&](std::int64_t) {  // returns only when all three are inside
    ++inside;
    while (inside < 3) std::this_thread::yield();
  });
  EXPECT_EQ(inside, 3);
}

// Wherever the caller turns up, its helpers are elsewhere.
TEST(ThreadTeam, HelpersMakeWayForTheCaller) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE && cpus.size() < 3; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) cpus.push_back(cpu);
  }
  if (cpus.size() < 2) GTEST_SKIP() << "one cpu has room for the caller alone";
  const auto team = make_team_around_caller(cpus);
  EXPECT_EQ(team->num_threads(), cpus.size());
  const std::thread::id caller = std::this_thread::get_id();
  for (int round = 0; round < 10; ++round) {
    const int here = cpus[static_cast<std::size_t>(round) % cpus.size()];
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(static_cast<std::size_t>(here), &only);
    ASSERT_EQ(sched_setaffinity(0, sizeof only, &only), 0);
    std::atomic<int> elsewhere{0}, beside{0};
    for (int run = 0; run < 500 && elsewhere == 0; ++run) {  // another process may have the helper's cpu for a while
      team->run(64, [&](std::int64_t) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));  // so that every thread has its share
        if (std::this_thread::get_id() != caller) ++(sched_getcpu() == here ? beside : elsewhere);
      });
    }
    EXPECT_EQ(beside, 0);
    EXPECT_GT(elsewhere, 0);
  }
  sched_setaffinity(0, sizeof allowed, &allowed);
}

TEST(ThreadTeam, HelpersStayOnTheirCpus) {
  int here = sched_getcpu();
  ASSERT_GE(here, 0);
  auto team = make_thread_team(3, {here});
  std::atomic<int> inside{0}, elsewhere{0};
  std::thread::id caller = std::this_thread::get_id();
  team->run(3, [&](std::int64_t) {
    ++inside;
    while (inside < 3) std::this_thread::yield();
    if (std::this_thread::get_id() != caller && sched_getcpu() != here) ++elsewhere;
  });
  EXPECT_EQ(elsewhere, 0);
}

TEST(ThreadTeam, RefusesCpusThatDoNotExist) {
  EXPECT_THROW(make_thread_team(2, {-1}), UserError);
  EXPECT_THROW(make_thread_team(2, {CPU_SETSIZE - 1}), DeviceError);
}

TEST(ThreadTeam, TeamsComeAndGo) {
  for (int round = 0; round < 100; ++round) {
    auto team = make_thread_team(4);
    if (round % 2 == 0) team->run(2, [](std::int64_t) {});
  }
}

}  // namespace
}  // namespace aspen
