// The folder of a profile, from programs run by hand.
#include "aspen/profiler/profiler.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/compiler/compile.h"
#include "aspen/compiler/ir/parser.h"
#include "aspen/profile/profile_json.h"
#include "aspen/profiler/engine_options.h"
#include "aspen/profiler/host_events.h"
#include "aspen/runtime/executor.h"
#include "tests/support/folder.h"

namespace aspen::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kText = R"(graph @main(%x: f32[4, 3]) {
  variable %w: f32[3, 2] parameter
  %0: f32[4, 2] = dot(%x, %w)
  %1: f32[4, 2] = relu(%0)
  return y: %1
})";

// A program that is profiled, and what calls it.
class Profiled {
 public:
  explicit Profiled(const fs::path& folder) : backend_(make_reference_backend()) {
    graph_ = parse_graph(kText);
    program_ = compile(*graph_, {}, *backend_);
    profiler_ = std::make_unique<Profiler>(ProfileSettings{.folder = folder, .model = "small"});
    profiler_->add_phase("passes", std::chrono::milliseconds(2));
    profiler_->add_phase("passes", std::chrono::milliseconds(3));
    profiler_->set_program({.program = program_, .backend = backend_->fingerprint()});
    executor_ = std::make_unique<Executor>(program_, ExecutorOptions{.recorder = profiler_->recorder()});
  }
  void call() {
    std::vector<float> x(12, 1), y(8);
    RunRequest request;
    request.inputs = {x.data()};
    request.outputs = {{.data = y.data()}};
    executor_->run(request);
  }
  Profiler& profiler() { return *profiler_; }
  void end() {
    executor_.reset();
    profiler_.reset();
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Graph> graph_;
  std::shared_ptr<Program> program_;
  std::unique_ptr<Profiler> profiler_;
  std::unique_ptr<Executor> executor_;
};

TEST(Profiler, WritesWhatWasCompiledAndRun) {
  const Folder folder;
  Profiled profiled(folder.path / "run");
  for (int i = 0; i < 3; ++i) profiled.call();
  profiled.end();
  const profile::Profile profile = profile::read_profile(folder.path / "run" / "profile.json");
  EXPECT_TRUE(profile.run.complete);
  EXPECT_EQ(profile.run.model, "small");
  EXPECT_EQ(profile.run.micro_batch_size, 4);
  ASSERT_EQ(profile.compilation.size(), 1);
  EXPECT_EQ(profile.compilation[0].duration, 5'000'000);
  ASSERT_EQ(profile.calls.size(), 3);
  EXPECT_EQ(profile.calls[2].samples, 4);
  EXPECT_GT(profile.calls[2].begin, profile.calls[0].begin);
  std::vector<std::int64_t> calls;
  for (const profile::Block& block : profile.trace.blocks) {
    if (block.kind == profile::BlockKind::kForward) calls.push_back(block.call);
  }
  EXPECT_EQ(calls, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(profile.ops[0].flops, 2 * 4 * 3 * 2);
}

TEST(Profiler, WritesTheProgramBeforeTheFirstCall) {
  const Folder folder;
  Profiled profiled(folder.path / "run");
  const fs::path file = folder.path / "run" / "profile.json";
  for (int i = 0; i < 1000 && !fs::exists(file); ++i) usleep(10'000);
  const profile::Profile profile = profile::read_profile(file);
  EXPECT_FALSE(profile.run.complete);
  EXPECT_TRUE(profile.calls.empty());
  EXPECT_FALSE(profile.ops.empty());
}

TEST(Profiler, ProfilesAtTheSameTimeHaveFoldersOfTheirOwn) {
  const Folder folder;
  Profiled first(folder.path / "run"), second(folder.path / "run");
  EXPECT_EQ(first.profiler().folder().filename(), "run");
  EXPECT_EQ(second.profiler().folder().filename(), "run_2");
  first.end();
  Profiled third(folder.path / "run");
  EXPECT_EQ(third.profiler().folder().filename(), "run");
}

TEST(Profiler, AFolderThatCannotBeMadeDoesNotStopARun) {
  Profiled profiled("/dev/null/run");
  profiled.call();
  profiled.end();
}

TEST(Profiler, AForkWritesNothingAndEnds) {
  const Folder folder;
  Profiled profiled(folder.path / "run");
  profiled.call();
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    profiled.end();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  profiled.call();
  profiled.end();
  EXPECT_EQ(profile::read_profile(folder.path / "run" / "profile.json").calls.size(), 2);
}

TEST(HostEvents, AreThoseSinceTheBeginOfAProfile) {
  using namespace std::chrono_literals;
  const auto now = host_events::Clock::now();
  host_events::add("track", "before", now - 3s, now - 2s);
  host_events::add("track", "across", now - 1s, now + 1s);
  host_events::add("track", "after", now + 2s, now + 3s);
  const auto found = host_events::since(now);
  ASSERT_EQ(found.size(), 2);
  EXPECT_EQ(found[0].name, "across");
  EXPECT_EQ(found[0].begin, 0);
  EXPECT_EQ(found[0].duration, 1'000'000'000);
  EXPECT_EQ(found[1].begin, 2'000'000'000);
}

TEST(EngineOptions, SayWhereAProfileGoes) {
  EXPECT_EQ(profile_directory({}), std::nullopt);
  EXPECT_EQ(profile_directory({{"autoReport.directory", "there"}}), std::nullopt);
  EXPECT_EQ(profile_directory({{"autoReport.all", "false"}}), std::nullopt);
  EXPECT_EQ(profile_directory({{"autoReport.all", "true"}}), ".");
  EXPECT_EQ(profile_directory({{"autoReport.outputExecutionProfile", "true"}, {"autoReport.directory", "there"}}),
            "there");
}

}  // namespace
}  // namespace aspen::testing
