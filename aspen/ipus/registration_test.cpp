// Registrations as others see them: in this process, from others, after a fork, an exec and a violent end.
#include "aspen/ipus/registration.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <array>
#include <fstream>
#include <set>

#include "aspen/ipus/attachments.h"
#include "aspen/ipus/device_lease.h"
#include "aspen/ipus/ipu_ids.h"
#include "tests/support/child_process.h"
#include "tests/support/own_ipus.h"

namespace aspen {
namespace {

using testing::ChildProcess;
using Ids = std::vector<std::int64_t>;

class Registrations : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::use_own_ipus();
    std::filesystem::remove_all(ipu_folder_path());
  }
};

Ids ids(const Attachment& executor) {
  Ids result;
  for (const AttachedIpu& ipu : executor.ipus) result.push_back(ipu.ipu);
  return result;
}

// Of the last one that this process attached.
Ids last_ids() {
  auto attached = read_attachments().executors;
  std::erase_if(attached, [](const Attachment& executor) { return executor.pid != getpid(); });
  return ids(attached.back());
}

std::set<std::int64_t> pids() {
  std::set<std::int64_t> result;
  for (const Attachment& executor : read_attachments().executors) result.insert(executor.pid);
  return result;
}

void register_and_wait(const ChildProcess::Wait& wait) {
  const Registration registration("child", {}, {{}});
  wait();
}

TEST_F(Registrations, TellWhoWhatAndWhere) {
  {
    const Registration registration("net", 64 + 3, {{.memory = 1000, .host_memory = 7}, {.memory = 2000}});
    const auto attached = read_attachments().executors;
    ASSERT_EQ(attached.size(), 1);
    EXPECT_EQ(attached[0].pid, getpid());
    EXPECT_EQ(attached[0].user, geteuid());
    EXPECT_EQ(attached[0].model, "net");
    EXPECT_NE(attached[0].command.find("unit_tests"), std::string::npos) << attached[0].command;
    EXPECT_EQ(attached[0].device, 67);
    EXPECT_LT(attached[0].seconds, 60);
    EXPECT_EQ(ids(attached[0]), (Ids{6, 7}));
    EXPECT_EQ(attached[0].ipus[0].memory, 1000);
    EXPECT_EQ(attached[0].ipus[0].host_memory, 7);
    EXPECT_EQ(attached[0].ipus[1].memory, 2000);
    EXPECT_EQ(testing::num_ipu_files(), 1);
  }
  EXPECT_TRUE(read_attachments().executors.empty());
  EXPECT_EQ(testing::num_ipu_files(), 0);
}

TEST_F(Registrations, TextsThatAreTooLongAreCut) {
  const Registration registration(std::string(1000, 'm'), {}, {{}});
  EXPECT_EQ(read_attachments().executors.at(0).model, std::string(63, 'm'));
}

TEST_F(Registrations, ADeviceIsShownWholeEvenIfNotAllOfItIsUsed) {
  const Registration registration("net", 96, {{.memory = 5}});
  EXPECT_EQ(last_ids(), (Ids{0, 1, 2, 3}));
}

TEST_F(Registrations, ThoseThatAskForNothingAreOnTheFirstFreeIpus) {
  const Registration one("", {}, {{}});
  EXPECT_EQ(last_ids(), Ids{0});
  const Registration pair("", {}, {{}, {}});
  EXPECT_EQ(last_ids(), (Ids{2, 3}));
  auto single = std::make_unique<Registration>("", std::nullopt, std::vector<RegisteredIpu>(1));
  EXPECT_EQ(last_ids(), Ids{1});
  const Registration three("", {}, {{}, {}, {}});
  EXPECT_EQ(last_ids(), (Ids{4, 5, 6}));
  single.reset();
  const ChildProcess other(register_and_wait);  // in the gap, seen from here
  const Registration next("", {}, {{}});
  EXPECT_EQ(last_ids(), Ids{7});
}

TEST_F(Registrations, LeasesOfThoseWhoAreNotAttachedYetAreRespected) {
  const auto own = DeviceLease::take(0, nullptr);
  const ChildProcess other([](const ChildProcess::Wait& wait) {
    const auto lease = DeviceLease::take(1, nullptr);
    wait();
  });
  const Registration registration("", {}, {{}});
  EXPECT_EQ(last_ids(), Ids{2});
}

TEST_F(Registrations, WhereNoneIsFreeTheyShare) {
  const Registration all("", {}, std::vector<RegisteredIpu>(kMaxIpus));
  const Registration again("", {}, {{}});
  EXPECT_EQ(last_ids(), Ids{0});
  const Registration third("", {}, {{}});
  EXPECT_EQ(last_ids(), Ids{1});
  const Registration too_many("", {}, std::vector<RegisteredIpu>(kMaxIpus + 2));
  EXPECT_EQ(last_ids().back(), 1);
}

TEST_F(Registrations, OfAProcessThatIsKilledDisappear) {
  ChildProcess first(register_and_wait), second(register_and_wait);
  EXPECT_EQ(pids(), (std::set<std::int64_t>{first.pid(), second.pid()}));
  const std::int64_t survivor = second.pid();
  first.kill_without_reaping();  // to look for its pid would still find it
  EXPECT_EQ(pids(), std::set<std::int64_t>{survivor});
  EXPECT_EQ(testing::num_ipu_files(), 1);  // who looked has removed the file
}

TEST_F(Registrations, OfAProcessThatExecutesAnotherProgramDisappear) {
  const ChildProcess child([](const ChildProcess::Wait& wait) {
    const Registration registration("", {}, {{}});
    const pid_t pid = getpid();
    std::array<int, 2> ends;
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
    if (fork() == 0) {  // tells when the parent has become another program, and ends with it
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      char nothing = 0;
      close(ends[1]);
      if (read(ends[0], &nothing, 1) == 0 && getppid() == pid) wait();
      _exit(1);
    }
    execlp("sleep", "sleep", "1000", nullptr);
  });
  EXPECT_TRUE(read_attachments().executors.empty());
}

TEST_F(Registrations, AForkIsNotAttachedAndKeepsNothingAlive) {
  std::array<int, 2> ends;
  ASSERT_EQ(pipe(ends.data()), 0);
  ChildProcess parent([&](const ChildProcess::Wait& wait) {
    Registration registration("parent", {}, {{}});
    BusyClock clock(registration.busy(0));
    const ChildProcess worker([&](const ChildProcess::Wait& worker_wait) {
      clock.add(std::chrono::hours(1));  // as if it ran the parent's model
      worker_wait();
    });
    const pid_t pid = worker.pid();
    if (write(ends[1], &pid, sizeof pid) == sizeof pid) wait();
  });
  pid_t worker = 0;
  ASSERT_EQ(read(ends[0], &worker, sizeof worker), sizeof worker);
  const auto attached = read_attachments().executors;
  ASSERT_EQ(attached.size(), 1);
  EXPECT_EQ(attached[0].pid, parent.pid());
  EXPECT_EQ(attached[0].ipus[0].busy, 0);
  parent.kill();
  EXPECT_EQ(kill(worker, 0), 0) << "the worker should have outlived its parent";
  EXPECT_TRUE(read_attachments().executors.empty());
  kill(worker, SIGKILL);
  for (int end : ends) close(end);
}

TEST_F(Registrations, AForkCanAttachOnItsOwn) {
  const Registration registration("parent", {}, {{}});
  {
    const ChildProcess child([](const ChildProcess::Wait& wait) {
      const Registration own("child", {}, {{}});
      EXPECT_EQ(read_attachments().executors.size(), 2);
      wait();
    });
    EXPECT_EQ(pids(), (std::set<std::int64_t>{getpid(), child.pid()}));
  }
  EXPECT_EQ(pids(), std::set<std::int64_t>{getpid()});
}

TEST_F(Registrations, AreSeenFromUserToUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  constexpr uid_t kNobody = 65534;
  std::filesystem::permissions(std::filesystem::path(ipu_folder_path()).parent_path(), std::filesystem::perms::all);
  const Registration roots("root's", {}, {{}});
  const ChildProcess child([](const ChildProcess::Wait& wait) {
    umask(077);
    if (setuid(kNobody) != 0) return;
    const Registration own("nobody's", {}, {{}});
    if (read_attachments().executors.size() == 2) wait();
  });
  const auto attached = read_attachments().executors;
  ASSERT_EQ(attached.size(), 2);
  const Attachment& nobodys = attached[attached[0].pid == child.pid() ? 0 : 1];
  EXPECT_EQ(nobodys.user, kNobody);
  EXPECT_EQ(user_name(nobodys.user), "nobody");
  EXPECT_EQ(ids(nobodys), Ids{1});
}

TEST_F(Registrations, WithoutAPlaceForThemWarnOnceAndWork) {
  const char* own_place = std::getenv("ASPEN_IPU_LOCK");
  ASSERT_NE(own_place, nullptr);
  const std::string place = own_place;
  setenv("ASPEN_IPU_LOCK", "/proc/no/such/place", 1);
  ::testing::internal::CaptureStderr();
  {
    Registration first("", {}, {{}, {}}), second("", 0, {{}});
    BusyClock(first.busy(1)).add(std::chrono::seconds(1));
    EXPECT_EQ(busy_at(first.busy(1), BusyClock::Clock::now()), 1'000'000'000);
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  const auto said = log.find("gc-monitor will not show this process: /proc/no/such/place.attached cannot be opened");
  EXPECT_NE(said, std::string::npos) << log;
  EXPECT_EQ(log.find("gc-monitor", said + 1), std::string::npos) << log;
  EXPECT_TRUE(read_attachments().executors.empty());
  setenv("ASPEN_IPU_LOCK", place.c_str(), 1);
}

TEST_F(Registrations, AFolderThatIsNoneIsAnErrorForWhoLooks) {
  std::ofstream(ipu_folder_path()) << "a file";
  try {
    read_attachments();
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find(ipu_folder_path() + ", which says who is attached, cannot be read"),
              std::string::npos)
        << error.what();
  }
  std::filesystem::remove(ipu_folder_path());
}

}  // namespace
}  // namespace aspen
