// Some thousand changed files, the same in every run; ./dev fuzz program goes on from there.
#include <gtest/gtest.h>

#include <array>

#include "allocation_watch.h"
#include "aspen/backends/reference/reference_backend.h"
#include "aspen/program_file/sections.h"
#include "judge.h"

namespace aspen::testing {
namespace {

// Reading takes a small multiple of the file; what a program declares is within the limits.
std::size_t most_in_one_piece(const Bytes& file) { return 16 * file.size() + kFuzzLimits.memory; }

TEST(Fuzz, SeedsAreProgramsThatRun) {
  const auto backend = make_reference_backend();
  for (const Bytes& file : seed_files(*backend)) EXPECT_GE(judge(file, *backend), Verdict::kFails);
}

TEST(Fuzz, AChangedFileIsRefused) {
  const auto backend = make_reference_backend();
  const std::vector<Bytes> seeds = seed_files(*backend);
  Random random(1);
  for (int i = 0; i < 10000; ++i) {
    const Bytes& seed = seeds[random() % seeds.size()];
    Bytes file = seed;
    mutate_bytes(file, seeds[random() % seeds.size()], random);
    if (file == seed) continue;
    EXPECT_THROW(Sections::decode(file), FileError) << "file " << i;
  }
}

// Whoever can write a file can make its checksums fit.
TEST(Fuzz, AFileWithGoodChecksumsIsRefusedOrRuns) {
  const auto backend = make_reference_backend();
  const std::vector<Bytes> seeds = seed_files(*backend);
  Random random(2);
  std::array<int, 4> verdicts = {};
  for (int i = 0; i < 30000; ++i) {
    const Bytes& seed = seeds[random() % seeds.size()];
    const Bytes file = i % 2 == 0 ? mutate_and_fix(seed, seeds[random() % seeds.size()], random)
                                  : with_changed_program(seed, *backend, random).value();
    forget_largest_allocation();
    try {
      ++verdicts[static_cast<std::size_t>(judge(file, *backend))];
    } catch (const std::exception& error) {
      ADD_FAILURE() << "file " << i << ": " << error.what();
    }
    EXPECT_LE(largest_allocation(), most_in_one_piece(file)) << "file " << i;
  }
  for (int count : verdicts) EXPECT_GT(count, 30);  // each of them is put to the test
}

TEST(Fuzz, AFileWithoutSectionsCanBeChangedToo) {
  const Bytes empty = Sections().encode();
  Random random(4);
  for (int i = 0; i < 100; ++i) mutate_and_fix(empty, empty, random);
}

TEST(Fuzz, AFileOfChoicesIsRefusedOrRead) {
  const auto backend = make_reference_backend();
  const Bytes seed = seed_of_choices(*backend), other = seed_files(*backend).front();
  EXPECT_TRUE(holds_choices(seed, *backend));
  Random random(3);
  int num_read = 0;
  for (int i = 0; i < 20000; ++i) {
    const Bytes file = mutate_and_fix(seed, i % 2 == 0 ? seed : other, random);
    forget_largest_allocation();
    try {
      num_read += holds_choices(file, *backend) ? 1 : 0;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "file " << i << ": " << error.what();
    }
    EXPECT_LE(largest_allocation(), most_in_one_piece(file)) << "file " << i;
  }
  EXPECT_GT(num_read, 30);
  EXPECT_LT(num_read, 19970);
}

}  // namespace
}  // namespace aspen::testing
