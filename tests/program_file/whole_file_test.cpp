// Whatever stops a write, the file is the one before or the new one.
#include "aspen/base/whole_file.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "aspen/program_file/sections.h"
#include "tests/support/folder.h"

namespace aspen::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::microseconds;

// A file of this many bytes that all say the same.
Sections file_of(int number, std::size_t size) {
  Sections file;
  file.set("state", std::vector<std::byte>(size, static_cast<std::byte>(number)));
  return file;
}

// What it says; fails the test if that is not the same everywhere.
int number_in(const fs::path& file) {
  const Sections sections = Sections::read(file);
  const auto bytes = sections.get("state");
  for (std::byte byte : bytes) {
    if (byte != bytes[0]) ADD_FAILURE() << "parts of two files";
  }
  return static_cast<int>(bytes[0]);
}

std::string complaint(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Runs `work` in a process of its own, which ends with what it returns.
pid_t start(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  int code = 99;
  try {
    code = work();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  ::_exit(code);
}

int result_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool is_unfinished(const fs::directory_entry& entry) { return entry.path().extension() == ".unfinished"; }

std::size_t num_unfinished(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::count_if(fs::directory_iterator(folder), fs::directory_iterator(), is_unfinished));
}

void wait_for_more_unfinished(const fs::path& folder, std::size_t than) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (num_unfinished(folder) <= than && std::chrono::steady_clock::now() < end) continue;
}

TEST(WholeFile, AWriterThatIsKilledLeavesTheFileBefore) {
  constexpr std::size_t kSize = 8 << 20;
  Folder folder;
  const fs::path file = folder.path / "program.aspen";
  file_of(0, kSize).write(file);
  std::size_t left_behind = 0;
  for (int round = 1; round <= 40; ++round) {
    const int before = number_in(file);
    const std::size_t left_now = num_unfinished(folder.path);
    const pid_t child = start([&] {
      for (;;) file_of(round, kSize).write(file);
      return 0;
    });
    if (round % 2 == 0) {
      std::this_thread::sleep_for(microseconds(700 * round));
    } else {  // in the middle of it, however slow the machine is
      wait_for_more_unfinished(folder.path, left_now);
    }
    ::kill(child, SIGKILL);
    EXPECT_EQ(result_of(child), 128 + SIGKILL);
    const int after = number_in(file);
    EXPECT_TRUE(after == before || after == round) << after;
    left_behind += num_unfinished(folder.path);
  }
  EXPECT_GT(left_behind, 0u) << "nobody was killed while writing";
  file_of(50, kSize).write(file);
  EXPECT_EQ(number_in(file), 50);
}

TEST(WholeFile, WhatKilledWritersLeftIsRemovedWhenItIsOld) {
  Folder folder;
  const fs::path file = folder.path / "program.aspen";
  const auto make = [&](const char* name, int minutes) {
    std::ofstream(folder.path / name) << "half";
    fs::last_write_time(folder.path / name, fs::file_time_type::clock::now() - std::chrono::minutes(minutes));
    return folder.path / name;
  };
  const fs::path old = make("a.1.unfinished", 5), young = make("a.2.unfinished", 0), held = make("b.3.unfinished", 5);
  const fs::path other = make("notes.txt", 5);
  // A process that is at work holds its file.
  const int descriptor = ::open(held.c_str(), O_RDONLY);
  ASSERT_EQ(::flock(descriptor, LOCK_EX | LOCK_NB), 0);
  file_of(1, 100).write(file);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(young));
  EXPECT_TRUE(fs::exists(held));
  EXPECT_TRUE(fs::exists(other));
  ::close(descriptor);
  remove_unfinished(folder.path);
  EXPECT_FALSE(fs::exists(held));
}

TEST(WholeFile, ProcessesThatWriteTheSameFileTakeTurns) {
  constexpr std::size_t kSize = 1 << 20;
  Folder folder;
  const fs::path file = folder.path / "program.aspen";
  file_of(0, kSize).write(file);
  std::vector<pid_t> writers;
  for (int number : {1, 2, 3}) {
    writers.push_back(start([&file, number] {
      for (int i = 0; i < 20; ++i) file_of(number, kSize).write(file);
      return 0;
    }));
  }
  for (int i = 0; i < 50; ++i) EXPECT_LE(number_in(file), 3);
  for (pid_t writer : writers) EXPECT_EQ(result_of(writer), 0);
  EXPECT_EQ(folder.size(), 1u);
}

// -- what the system refuses ------------------------------------------------------------------------------------------
// In a process that may write so many bytes to a file and no more.
TEST(WholeFile, AFileThatMayNotGrowLeavesTheOneBefore) {
  Folder folder;
  const fs::path file = folder.path / "program.aspen";
  file_of(1, 1000).write(file);
  const pid_t child = start([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string expected = fmt::format(
        "[file] cannot write \"{}\": File too large. What was there before is unchanged; make room, or choose "
        "another place, and try again.",
        file.string());
    const std::string text = complaint([&] { file_of(2, 2 << 20).write(file); });
    if (text != expected) std::fprintf(stderr, "%s\n", text.c_str());
    return text == expected ? 0 : 1;
  });
  EXPECT_EQ(result_of(child), 0);
  EXPECT_EQ(number_in(file), 1);
  EXPECT_EQ(folder.size(), 1u);
}

// On a disk of one megabyte, in a process that sees it alone.
TEST(WholeFile, AFullDiskLeavesTheFileBefore) {
  constexpr int kNoDisk = 77;
  Folder folder;
  const pid_t child = start([&] {
    const bool has_disk = ::unshare(CLONE_NEWNS) == 0 &&
                          ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                          ::mount("none", folder.path.c_str(), "tmpfs", 0, "size=1m") == 0;
    if (!has_disk) return kNoDisk;
    const fs::path file = folder.path / "program.aspen";
    file_of(1, 100'000).write(file);
    const std::string text = complaint([&] { file_of(2, 2 << 20).write(file); });
    if (text.find("No space left on device. What was there before is unchanged; make room") == std::string::npos) {
      std::fprintf(stderr, "%s\n", text.c_str());
      return 1;
    }
    if (number_in(file) != 1 || folder.size() != 1) return 2;
    file_of(3, 100'000).write(file);
    return number_in(file) == 3 ? 0 : 3;
  });
  const int result = result_of(child);
  if (result == kNoDisk) GTEST_SKIP() << "only root may mount a small disk";
  EXPECT_EQ(result, 0);
}

// Root may write anywhere: it becomes another user first.
TEST(WholeFile, AFolderThatMayNotBeWrittenToIsNamed) {
  Folder folder;
  const fs::path file = folder.path / "program.aspen";
  file_of(1, 1000).write(file);
  const pid_t child = start([&] {
    if (::geteuid() == 0) {
      fs::permissions(folder.path, fs::perms::owner_all | fs::perms::others_read | fs::perms::others_exec);
      if (::setuid(65534) != 0) return 2;
    } else {
      fs::permissions(folder.path, fs::perms::owner_read | fs::perms::owner_exec);
    }
    const std::string expected = fmt::format(
        "[file] cannot write \"{}\": Permission denied. Choose a folder that may be written to, or change the "
        "permissions of \"{}\".",
        file.string(), folder.path.string());
    const std::string text = complaint([&] { file_of(2, 1000).write(file); });
    if (text != expected) std::fprintf(stderr, "%s\n", text.c_str());
    return text == expected ? 0 : 1;
  });
  EXPECT_EQ(result_of(child), 0);
  fs::permissions(folder.path, fs::perms::owner_all);
  EXPECT_EQ(number_in(file), 1);
  EXPECT_EQ(folder.size(), 1u);
}

}  // namespace
}  // namespace aspen::testing
