// What lies in the folder of attached executors may be anybody's, old, half-written or made to harm.
#include "aspen/ipus/attachments.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>

#include "aspen/ipus/overview.h"
#include "aspen/ipus/registration_file.h"
#include "tests/support/child_process.h"
#include "tests/support/own_ipus.h"

namespace aspen {
namespace {

namespace fs = std::filesystem;
using testing::ChildProcess;

class AttachmentFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::use_own_ipus();
    fs::remove_all(ipu_folder_path());
    fs::create_directory(ipu_folder_path());
  }
};

fs::path in_folder(const std::string& name) { return fs::path(ipu_folder_path()) / name; }

std::string file_of(std::int64_t pid, std::int64_t ipu, std::int64_t busy = 0) {
  RegistrationHeader header{.num_cells = 1, .pid = pid};
  RegistrationCell cell{.ipu = ipu, .memory = 100};
  cell.busy = busy;
  std::string bytes(sizeof header + sizeof cell, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, static_cast<const void*>(&cell), sizeof cell);
  return bytes;
}

// A process that holds files as their owners do.
class Holder : public ChildProcess {
 public:
  explicit Holder(const std::vector<std::pair<std::string, std::string>>& files)
      : ChildProcess([&](const Wait& wait) {
          for (const auto& [name, bytes] : files) {
            const int file = open(in_folder(name).c_str(), O_RDWR | O_CREAT, 0644);
            struct flock whole {};
            whole.l_type = F_WRLCK;
            if (write(file, bytes.data(), bytes.size()) < 0 || fcntl(file, F_SETLK, &whole) != 0) return;
          }
          wait();
        }) {}
};

TEST_F(AttachmentFiles, ThePidIsThatOfTheProcessNotThatOfTheText) {
  const Holder holder({{"5-1-0", file_of(5, 3)}});
  const auto attached = read_attachments();
  ASSERT_EQ(attached.executors.size(), 1);
  EXPECT_EQ(attached.executors[0].pid, holder.pid());
  EXPECT_TRUE(attached.passed_by.empty());
}

TEST_F(AttachmentFiles, WithoutAProcessAreRemoved) {
  std::ofstream(in_folder("7-1-0")) << file_of(7, 0);
  std::ofstream(in_folder("8-1-0")) << "half";
  EXPECT_TRUE(read_attachments().executors.empty());
  EXPECT_EQ(testing::num_ipu_files(), 0);
}

TEST_F(AttachmentFiles, ThatAreBeingWrittenAreLeftAloneUntilTheyAreOld) {
  std::ofstream(in_folder(".new-7-1-0")) << "half";
  EXPECT_TRUE(read_attachments().passed_by.empty());
  EXPECT_EQ(testing::num_ipu_files(), 1);
  fs::last_write_time(in_folder(".new-7-1-0"), fs::file_time_type::clock::now() - std::chrono::hours(1));
  read_attachments();
  EXPECT_EQ(testing::num_ipu_files(), 0);
}

TEST_F(AttachmentFiles, ThatSayNothingArePassedByWithTheReason) {
  std::string other = file_of(1, 0), version = other, longer = other + "x";
  other[0] = 'X';
  version[8] = 9;
  const Holder holder({{"1-1-0", "short"},
                       {"1-1-1", other},
                       {"1-1-2", version},
                       {"1-1-3", longer},
                       {"1-1-4", file_of(1, 64)},
                       {"1-1-5", file_of(1, 63)}});
  auto attached = read_attachments();
  EXPECT_EQ(attached.executors.size(), 1);
  std::sort(attached.passed_by.begin(), attached.passed_by.end());
  EXPECT_EQ(attached.passed_by,
            (std::vector<std::string>{"1-1-0: it is too short", "1-1-1: it is something else",
                                      "1-1-2: another version of Aspen wrote it", "1-1-3: its size is wrong",
                                      "1-1-4: it names an IPU that there is not"}));
}

TEST_F(AttachmentFiles, OfOtherKindsAreLeftAlone) {
  std::ofstream(in_folder("notes.txt")) << "hello";
  fs::create_directory(in_folder("1-1-1"));
  fs::create_symlink("/dev/zero", in_folder("1-1-2"));
  ASSERT_EQ(mkfifo(in_folder("1-1-3").c_str(), 0644), 0);
  EXPECT_TRUE(read_attachments().executors.empty());
  EXPECT_EQ(testing::num_ipu_files(), 4);
}

TEST_F(AttachmentFiles, WithAnyBytesDoNoHarm) {
  std::mt19937 random(1);
  std::vector<std::pair<std::string, std::string>> files;
  for (int i = 0; i < 500; ++i) {
    std::string bytes = file_of(1, 0);
    for (int changes = 0; changes < 4; ++changes) {
      // Texts are most of the header: rather what comes before and after them.
      const std::size_t at = random() % 2 == 0 ? random() % 48 : sizeof(RegistrationHeader) + random() % 32;
      bytes[at] = static_cast<char>(random());
    }
    files.emplace_back(fmt::format("1-2-{}", i), bytes);
  }
  const Holder holder(files);
  const auto attached = read_attachments();
  EXPECT_EQ(attached.executors.size() + attached.passed_by.size(), files.size());
  EXPECT_GT(attached.executors.size(), 0);
  for (const IpuOverview& ipu : overview_of_ipus({}, attached)) {
    EXPECT_GE(ipu.utilisation, 0);
    EXPECT_LE(ipu.utilisation, 1);
  }
}

Attachments look(double seconds, std::int64_t busy) {
  Attachments result{.time = BusyClock::Clock::time_point(std::chrono::nanoseconds(std::int64_t(seconds * 1e9)))};
  result.executors.push_back({.key = "a", .pid = 1, .seconds = 10, .ipus = {{.ipu = 2, .memory = 3, .busy = busy}}});
  return result;
}

double utilisation_between(const Attachments& before, const Attachments& after) {
  return utilisation(before, after, after.executors[0], after.executors[0].ipus[0]);
}

TEST(Utilisation, IsTheShareOfTheTimeBetweenTwoLooks) {
  EXPECT_DOUBLE_EQ(utilisation_between(look(1, 500'000'000), look(3, 2'000'000'000)), 0.75);
  EXPECT_DOUBLE_EQ(utilisation_between({}, look(3, 2'000'000'000)), 0.2);  // since it was attached
  EXPECT_DOUBLE_EQ(utilisation_between(look(1, 0), look(3, 9'000'000'000)), 1);
  EXPECT_DOUBLE_EQ(utilisation_between(look(1, 5), look(3, 0)), 0);
  EXPECT_DOUBLE_EQ(utilisation_between(look(1, 5), look(1, 5)), 0);
}

TEST(Utilisation, OfADeviceIsTheMeanOfItsIpus) {
  testing::use_own_ipus();
  const auto ipus = overview_of_ipus(look(1, 0), look(2, 500'000'000));
  EXPECT_DOUBLE_EQ(overview_of_device(ipus, 2).utilisation, 0.5);
  EXPECT_DOUBLE_EQ(overview_of_device(ipus, 64 + 1).utilisation, 0.25);
  EXPECT_STREQ(overview_of_device(ipus, 64 + 1).state(), "attached");
  EXPECT_STREQ(overview_of_device(ipus, 64).state(), "free");
  EXPECT_EQ(overview_of_device(ipus, 126).pids, std::vector<std::int64_t>{1});
}

}  // namespace
}  // namespace aspen
