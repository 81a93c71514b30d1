// Choices among kernels that processes keep for each other.
#include "aspen/program_file/choice_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/base/whole_file.h"
#include "aspen/program_file/sections.h"
#include "tests/support/folder.h"

namespace aspen::testing {
namespace {

namespace fs = std::filesystem;
using Choices = ChoiceTable::Choices;

const Backend& backend() {
  static const auto made = make_reference_backend();
  return *made;
}

class ChoiceFile : public ::testing::Test {
 protected:
  // A process has one table for each folder: what another one would find is seen in a copy.
  fs::path copy_of(const fs::path& folder) {
    fs::path copy = root_ / std::to_string(num_copies_++);
    fs::copy(folder, copy);
    return copy;
  }
  static void keep(const fs::path& folder, const Choices& timed, const Choices& by_rule = {}) {
    choices_in(folder, backend())->extend([&](const Choices&, bool can_keep) {
      EXPECT_TRUE(can_keep);
      return ChoiceTable::Decided{timed, by_rule};
    });
  }
  static fs::path only_file(const fs::path& folder) {
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
    return fs::directory_iterator(folder)->path();
  }

  const Folder folder_;
  const fs::path& root_ = folder_.path;
  int num_copies_ = 0;
};

TEST_F(ChoiceFile, OneTableForAFolder) {
  fs::create_directory(root_ / "a");
  fs::create_directory_symlink(root_ / "a", root_ / "b");
  EXPECT_EQ(choices_in(root_ / "a", backend()), choices_in(root_ / "b", backend()));
  EXPECT_NE(choices_in(root_ / "a", backend()), choices_in(root_ / "c", backend()));
}

TEST_F(ChoiceFile, OthersFindWhatWasTimed) {
  const fs::path folder = root_ / "made" / "for_it";
  EXPECT_TRUE(choices_in(folder, backend())->known().empty());
  keep(folder, {{"x", "a"}, {"y", "b"}}, {{"z", ""}});
  keep(folder, {{"w", "c"}});
  EXPECT_EQ(choices_in(folder, backend())->known(), (Choices{{"w", "c"}, {"x", "a"}, {"y", "b"}, {"z", ""}}));
  only_file(folder);
  EXPECT_EQ(choices_in(copy_of(folder), backend())->known(), (Choices{{"w", "c"}, {"x", "a"}, {"y", "b"}}));
}

TEST_F(ChoiceFile, NothingTimedIsNoFile) {
  keep(root_ / "a", {}, {{"z", ""}});
  EXPECT_TRUE(fs::is_empty(root_ / "a"));
}

TEST_F(ChoiceFile, ProcessesAddToEachOthers) {
  const fs::path folder = root_ / "a";
  keep(folder, {{"mine", "a"}});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    choices_in(folder, backend())->extend([](const Choices& known, bool) {
      return ChoiceTable::Decided{{{"theirs", known.contains("mine") ? "b" : "lost"}, {"later", "c"}}, {}};
    });
    _exit(0);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  keep(folder, {{"mine too", "a"}});
  const Choices all{{"later", "c"}, {"mine", "a"}, {"mine too", "a"}, {"theirs", "b"}};
  EXPECT_EQ(choices_in(folder, backend())->known(), all);
  EXPECT_EQ(choices_in(copy_of(folder), backend())->known(), all);
}

TEST_F(ChoiceFile, AProcessHoldsToWhatItHasUsed) {
  const fs::path folder = root_ / "a";
  keep(folder, {}, {{"x", ""}});
  keep(root_ / "b", {{"x", "timed elsewhere"}});
  fs::copy(only_file(root_ / "b"), folder / only_file(root_ / "b").filename());
  EXPECT_EQ(choices_in(folder, backend())->known(), (Choices{{"x", ""}}));
}

TEST_F(ChoiceFile, AFileThatCannotBeUsedIsReplaced) {
  keep(root_ / "good", {{"x", "a"}});
  const std::vector<std::byte> good = read_whole(only_file(root_ / "good"));
  const auto newer = [](std::vector<std::byte> bytes) { return bytes[8] = std::byte{99}, bytes; };
  const auto flipped = [](std::vector<std::byte> bytes) { return bytes[bytes.size() - 70] ^= std::byte{4}, bytes; };
  const auto shorter = [](std::vector<std::byte> bytes) { return bytes.resize(bytes.size() / 2), bytes; };
  const auto without_choices = [](const std::vector<std::byte>& bytes) {
    Sections sections, all = Sections::decode(bytes);
    const auto origin = all.get("origin");
    sections.set("origin", {origin.begin(), origin.end()});
    return sections.encode();
  };
  const auto of_another = [](const std::vector<std::byte>& bytes) {
    Sections sections = Sections::decode(bytes);
    const auto origin = sections.get("origin");
    std::vector<std::byte> other(origin.begin(), origin.end());
    other.at(0) ^= std::byte{1};
    sections.set("origin", other);
    return sections.encode();
  };
  for (const auto& bad :
       {newer(good), flipped(good), shorter(good), without_choices(good), of_another(good), std::vector<std::byte>()}) {
    const fs::path folder = copy_of(root_ / "good"), file = only_file(folder);
    write_whole(file, {bad});
    EXPECT_TRUE(choices_in(folder, backend())->known().empty());
    keep(folder, {{"x", "a"}});
    EXPECT_EQ(read_whole(file), good);
    EXPECT_EQ(choices_in(copy_of(folder), backend())->known(), (Choices{{"x", "a"}}));
  }
}

TEST_F(ChoiceFile, NothingIsKeptInAFolderThatCannotBeWritten) {
  const fs::path file = root_ / "file";
  std::ofstream(file) << "no folder";
  const auto table = choices_in(file / "below", backend());
  EXPECT_TRUE(table->known().empty());
  table->extend([](const Choices&, bool can_keep) {
    EXPECT_FALSE(can_keep);
    return ChoiceTable::Decided{{}, {{"x", ""}}};
  });
  EXPECT_EQ(table->known(), (Choices{{"x", ""}}));
}

}  // namespace
}  // namespace aspen::testing
