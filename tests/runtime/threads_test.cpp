// Which threads run the devices of a program, on which cpus, and what the host's own threads see of that.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "aspen/base/error.h"
#include "aspen/runtime/cpu_quota.h"
#include "aspen/runtime/cpu_share.h"
#include "aspen/runtime/thread_plan.h"
#include "pipeline_program.h"

namespace aspen::testing {
namespace {

std::set<int> cpus_of_this_thread() {
  cpu_set_t set;
  std::set<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.insert(cpu);
  }
  return cpus;
}

// What ran a kernel.
struct Seen {
  std::set<int> cpus;  // that its thread may run on
  std::size_t team = 1;
  std::set<std::thread::id> threads;
};

std::map<std::string, Seen> threads_of(PipelineSpec spec, ExecutorOptions options = {}) {
  std::mutex mutex;
  std::map<std::string, Seen> seen;
  spec.hook = [&](const std::string& what, const StepContext& context) {
    std::lock_guard lock(mutex);
    Seen& entry = seen[what];
    entry.cpus = cpus_of_this_thread();
    entry.team = std::max(entry.team, context.team != nullptr ? context.team->num_threads() : 1);  // tried alone, too
    entry.threads.insert(std::this_thread::get_id());
  };
  Executor executor(pipeline_program(spec), options);
  run_all(executor, chain_inputs(2 * spec.accumulation * static_cast<std::int64_t>(spec.replicas)), 2);
  return seen;
}

std::set<std::thread::id> all_threads(const std::map<std::string, Seen>& seen) {
  std::set<std::thread::id> threads;
  for (const auto& [what, entry] : seen) threads.insert(entry.threads.begin(), entry.threads.end());
  return threads;
}

std::vector<std::size_t> row(std::size_t count) {
  std::vector<std::size_t> devices(count);
  std::iota(devices.begin(), devices.end(), std::size_t{0});
  return devices;
}

using Groups = ThreadPlan::Groups;

// A chain of devices that take so long per micro-batch.
std::shared_ptr<Program> timed(std::vector<double> nanoseconds, PipelineSpec spec = {}) {
  spec.devices = row(nanoseconds.size());
  spec.training = false;
  auto program = pipeline_program(spec);
  for (std::size_t i = 0; i < nanoseconds.size(); ++i) program->step[i].nanoseconds = nanoseconds[i];
  return program;
}

TEST(ThreadPlan, GivesDevicesOfAPipelineThreadsOfTheirOwn) {
  ThreadPlan plan = plan_threads(*timed({1e6, 1e6}), 2);
  EXPECT_EQ(plan.devices, (Groups{{0}, {1}}));
  EXPECT_EQ(plan.replicas, (Groups{{0}}));
  EXPECT_EQ(plan.num_computing, 2u);
  EXPECT_EQ(plan_threads(*timed({1e6, 1e6}), 8).devices, (Groups{{0}, {1}}));
}

TEST(ThreadPlan, LetsDevicesThatTakeTurnsShareOne) {
  auto program = pipeline_program({.devices = row(16), .takes_turns = true});
  EXPECT_EQ(plan_threads(*program, 64).devices, Groups{row(16)});
  program->replicas = 4;
  EXPECT_EQ(plan_threads(*program, 64).devices, Groups{row(16)});
  EXPECT_EQ(plan_threads(*program, 64).replicas, (Groups{{0}, {1}, {2}, {3}}));
}

TEST(ThreadPlan, KeepsShortWorkTogether) {
  EXPECT_EQ(plan_threads(*timed({20e3, 20e3}), 8).devices, (Groups{{0, 1}}));
  EXPECT_EQ(plan_threads(*timed({30e3, 30e3, 30e3, 30e3}), 8).devices, (Groups{{0, 1}, {2, 3}}));
  EXPECT_EQ(plan_threads(*timed({10e3, 10e3, 90e3}), 8).devices, (Groups{{0, 1}, {2}}));
  auto program = timed({10e3}, {.replicas = 4});
  EXPECT_EQ(plan_threads(*program, 8).replicas, (Groups{{0, 1, 2, 3}}));
  program->gradient_accumulation = 100;  // replicas meet once per update
  EXPECT_EQ(plan_threads(*program, 8).replicas, (Groups{{0}, {1}, {2}, {3}}));
}

TEST(ThreadPlan, LetsNeighboursShareWhereCpusAreFew) {
  EXPECT_EQ(plan_threads(*timed({1e6, 1e6, 1e6, 1e6}), 2).devices, (Groups{{0, 1}, {2, 3}}));
  EXPECT_EQ(plan_threads(*timed({3e6, 1e6, 1e6, 1e6}), 2).devices, (Groups{{0}, {1, 2, 3}}));
  EXPECT_EQ(plan_threads(*timed({1e6, 1e6, 1e6, 1e6}), 1).devices, (Groups{{0, 1, 2, 3}}));
  ThreadPlan plan = plan_threads(*timed({1e6, 1e6}, {.replicas = 2}), 2);
  EXPECT_EQ(plan.devices, (Groups{{0, 1}}));
  EXPECT_EQ(plan.replicas, (Groups{{0}, {1}}));
  plan = plan_threads(*timed({1e6, 1e6}, {.replicas = 8}), 2);
  EXPECT_EQ(plan.devices, (Groups{{0, 1}}));
  EXPECT_EQ(plan.replicas, (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

TEST(ThreadPlan, LeavesUnevenWorkToTheSystem) {
  EXPECT_EQ(plan_threads(*timed({1e6, 1e6, 1e6}), 2).devices, (Groups{{0}, {1}, {2}}));
  EXPECT_EQ(plan_threads(*timed({1e6}, {.replicas = 3}), 2).replicas, (Groups{{0}, {1}, {2}}));
}

// The same pipeline with a device that only moves inputs.
TEST(ThreadPlan, MovesInputsOnAThreadOfTheirOwnIfItIsWorthOne) {
  for (double nanoseconds : {1e6, 1e3}) {
    auto program = timed({nanoseconds});
    program->devices.emplace_back();
    program->step.push_back({.device = 1, .nanoseconds = 0});
    ThreadPlan plan = plan_threads(*program, 2);
    EXPECT_EQ(plan.devices, nanoseconds == 1e6 ? (Groups{{0}, {1}}) : (Groups{{0, 1}}));
    EXPECT_EQ(plan.num_computing, 1u);
    EXPECT_EQ(plan_threads(*program, 1).devices, (Groups{{0, 1}}));
  }
}

TEST(ThreadPlan, TakesAProgramThatOnlyBringsValues) {
  auto program = timed({1e3, 1e3});
  for (Task& task : program->step) task.moves = true;
  EXPECT_EQ(plan_threads(*program, 2).devices, (Groups{{0, 1}}));
}

TEST(Threads, ServeDevicesThatTakeTurnsOneByOne) {
  for (std::size_t devices : {2, 16}) {
    auto seen = threads_of({.devices = row(devices), .takes_turns = true, .accumulation = 3});
    EXPECT_EQ(seen.size(), 4 * devices - 1);  // forward, sum, backward, update of each; the first needs no backward
    EXPECT_EQ(all_threads(seen), std::set{std::this_thread::get_id()});
    for (const auto& [what, entry] : seen) EXPECT_EQ(entry.team, cpus_of_this_thread().size()) << what;
  }
}

TEST(Threads, ServeReplicasThatTakeTurnsInParallel) {
  std::set<int> all = cpus_of_this_thread();
  if (all.size() < 2) GTEST_SKIP() << "needs two cpus";
  auto seen = threads_of({.devices = {0, 1}, .takes_turns = true, .replicas = all.size()});
  EXPECT_EQ(all_threads(seen).size(), all.size());
  for (const auto& [what, entry] : seen) EXPECT_EQ(entry.team, 1u) << what;
}

TEST(Threads, HaveCpusOfTheirOwnIfThereAreEnough) {
  std::set<int> all = cpus_of_this_thread();
  if (all.size() < 2) GTEST_SKIP() << "needs two cpus";
  auto seen = threads_of({.devices = {0, 1}, .training = false});
  Seen first = seen["forward 0"], second = seen["forward 1"];
  EXPECT_EQ(first.cpus.size(), 1u);
  EXPECT_EQ(second.cpus.size(), 1u);
  EXPECT_NE(first.cpus, second.cpus);
  EXPECT_EQ(first.team + second.team, all.size());
}

TEST(Threads, AreAsManyAsCpusWhereDevicesDivideEvenly) {
  std::set<int> all = cpus_of_this_thread();
  if (all.size() < 2) GTEST_SKIP() << "needs two cpus";
  auto seen = threads_of({.devices = row(2 * all.size()), .training = false});
  EXPECT_EQ(all_threads(seen).size(), all.size());
  for (const auto& [what, entry] : seen) EXPECT_EQ(entry.cpus.size(), 1u) << what;
}

TEST(Threads, AreNotPinnedIfThereAreMoreThanCpus) {
  std::set<int> all = cpus_of_this_thread();
  auto seen = threads_of({.devices = row(all.size() + 1), .training = false}, {.thread_per_device = true});
  EXPECT_EQ(all_threads(seen).size(), all.size() + 1);
  for (const auto& [what, entry] : seen) {
    EXPECT_EQ(entry.cpus, all);
    EXPECT_EQ(entry.team, 1u);
  }
}

// Another process that may use as few cpus would take the same ones.
TEST(Threads, AreNotPinnedToAPartOfTheCpus) {
  std::set<int> all = cpus_of_this_thread();
  if (all.size() < 3) GTEST_SKIP() << "needs three cpus";
  for (const auto& [what, entry] : threads_of({.devices = {0, 1}, .training = false}, {.num_threads = 2})) {
    EXPECT_EQ(entry.cpus, all) << what;
  }
}

TEST(Threads, OfOneDeviceAloneAreTheCallerAndItsTeam) {
  std::set<int> all = cpus_of_this_thread();
  auto seen = threads_of({.devices = {0}, .training = false});
  EXPECT_EQ(seen["forward 0"].team, all.size());
  EXPECT_EQ(all_threads(seen), std::set{std::this_thread::get_id()});
  EXPECT_EQ(cpus_of_this_thread(), all);
}

// A pipeline of two devices whose second one calls the host.
class HostKernel final : public Kernel {
 public:
  explicit HostKernel(std::function<void()> function) : function_(std::move(function)) {}
  bool calls_host() const override { return true; }
  void run(const KernelArgs&) const override { function_(); }

 private:
  std::function<void()> function_;
};

TEST(Threads, OfTheHostAreNotKeptOnTheCpuOfTheDeviceThatCalls) {
  std::set<int> all = cpus_of_this_thread();
  if (all.size() < 2) GTEST_SKIP() << "needs two cpus";
  for (bool checks_floats : {false, true}) {
    std::set<int> before, inside, of_new_thread, after;
    auto program = pipeline_program({.devices = {0, 1}, .training = false});
    program->checks_floats = checks_floats;
    auto& instructions = program->step[1].instructions;
    auto spy = [](std::set<int>& cpus) {
      return instruction("spy", {}, {}, [&cpus](const KernelArgs&) { cpus = cpus_of_this_thread(); });
    };
    instructions.insert(instructions.begin(), spy(before));
    instructions.push_back(spy(after));
    Instruction call{.request = {.op = "host_call"},
                     .kernel = std::make_unique<HostKernel>([&] {
                       inside = cpus_of_this_thread();
                       std::thread([&] { of_new_thread = cpus_of_this_thread(); }).join();
                     })};
    instructions.insert(instructions.begin() + 1, std::move(call));
    Executor executor(program);
    run_all(executor, chain_inputs(2), 2);
    EXPECT_EQ(before.size(), 1u);
    EXPECT_EQ(inside, all);
    EXPECT_EQ(of_new_thread, all);
    EXPECT_EQ(after, before);
  }
}

TEST(Threads, OfAHostCallThatFailsGoBackToTheirCpu) {
  if (cpus_of_this_thread().size() < 2) GTEST_SKIP() << "needs two cpus";
  bool fails = true;
  std::set<int> later;
  auto program = pipeline_program({.devices = {0, 1}, .training = false});
  auto& instructions = program->step[1].instructions;
  instructions.insert(instructions.begin(),
                      {.request = {.op = "host_call"}, .kernel = std::make_unique<HostKernel>([&] {
                                                         if (fails) throw UserError("the host cannot");
                                                       })});
  instructions.push_back(instruction("spy", {}, {}, [&](const KernelArgs&) { later = cpus_of_this_thread(); }));
  Executor executor(program);
  EXPECT_THROW(run_all(executor, chain_inputs(1), 1), UserError);
  fails = false;
  run_all(executor, chain_inputs(1), 1);
  EXPECT_EQ(later.size(), 1u);
}

TEST(CpuShare, DealsOutAllCpusEvenly) {
  using Shares = std::vector<std::vector<int>>;
  EXPECT_EQ(share_cpus({0, 2, 4, 6}, 2), (Shares{{0, 2}, {4, 6}}));
  EXPECT_EQ(share_cpus({0, 1, 2, 3, 4}, 3), (Shares{{0}, {1, 2}, {3, 4}}));
  EXPECT_EQ(share_cpus({0, 1}, 2), (Shares{{0}, {1}}));
  EXPECT_EQ(share_cpus({0, 1}, 3), Shares{});
}

// A place with the files of /proc and /sys that tell of control groups.
class FakeRoot {
 public:
  FakeRoot() : path_(std::filesystem::temp_directory_path() / fmt::format("aspen_cgroup_{}", getpid())) {}
  ~FakeRoot() { std::filesystem::remove_all(path_); }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(CpuShare, ObeysOptionAndEnvironment) {
  FakeRoot without_quota;
  auto usable = [&](std::size_t num_threads) { return usable_cpus(num_threads, without_quota.path()).cpus.size(); };
  std::size_t all = usable(0);
  EXPECT_EQ(all, cpus_of_this_thread().size());
  EXPECT_TRUE(usable_cpus(0, without_quota.path()).are_all);
  EXPECT_EQ(usable(1), 1u);
  EXPECT_EQ(usable_cpus(1).are_all, all == 1);
  EXPECT_EQ(usable(1000), all);
  setenv("ASPEN_NUM_THREADS", "1", 1);
  EXPECT_EQ(usable(0), 1u);
  EXPECT_EQ(usable(1000), all);  // the option is stronger
  for (const char* wrong : {"0", "-1", "two", "2x", ""}) {
    setenv("ASPEN_NUM_THREADS", wrong, 1);
    EXPECT_THROW(usable(0), UserError) << wrong;
  }
  unsetenv("ASPEN_NUM_THREADS");
}

TEST(CpuShare, ObeysTheQuotaOfTheControlGroup) {
  FakeRoot root;
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(usable_cpus(0, root.path()).cpus.size(), 1u);
  EXPECT_EQ(usable_cpus(0, root.path()).are_all, cpus_of_this_thread().size() == 1);
  EXPECT_EQ(usable_cpus(1000, root.path()).cpus.size(), cpus_of_this_thread().size());  // who asks gets it
  root.write("sys/fs/cgroup/cpu.max", "99900000 100000\n");
  EXPECT_TRUE(usable_cpus(0, root.path()).are_all);
}

TEST(CpuQuota, IsTheLeastOfAllGroupsAroundTheProcess) {
  FakeRoot root;
  EXPECT_EQ(cpu_quota(root.path()), std::nullopt);  // no control groups at all
  root.write("proc/self/cgroup", "0::/outer/inner\n");
  EXPECT_EQ(cpu_quota(root.path()), std::nullopt);
  root.write("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_quota(root.path()), std::nullopt);
  root.write("sys/fs/cgroup/outer/cpu.max", "150000 100000\n");
  EXPECT_EQ(cpu_quota(root.path()), 1.5);
  root.write("sys/fs/cgroup/outer/inner/cpu.max", "25000 100000\n");
  EXPECT_EQ(cpu_quota(root.path()), 0.25);
}

// Inside a container the path can be one of the host.
TEST(CpuQuota, IsThatOfTheMountIfTheGroupIsNotThere) {
  FakeRoot root;
  root.write("proc/self/cgroup", "0::/not/visible\n");
  root.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(cpu_quota(root.path()), 2);
}

TEST(CpuQuota, IsReadFromTheFirstVersionToo) {
  FakeRoot root;
  root.write("proc/self/cgroup", "7:memory:/a\n4:cpu,cpuacct:/a\n0::/\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(root.path()), std::nullopt);
  root.write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(cpu_quota(root.path()), 3);
}

TEST(CpuQuota, IsNoneWhereFilesMakeNoSense) {
  FakeRoot root;
  root.write("proc/self/cgroup", "nonsense\n0::/\n");
  for (const char* text : {"", "x y\n", "100\n", "100000 0\n", "-5 100000\n"}) {
    root.write("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(cpu_quota(root.path()), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace aspen::testing
