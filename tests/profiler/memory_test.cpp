// The memory of a profile is that of the plan: found again in the program, buffer by buffer.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/compiler/compile.h"
#include "aspen/compiler/ir/parser.h"
#include "aspen/profile/profile_check.h"
#include "aspen/profiler/describe_program.h"

namespace aspen::testing {
namespace {

std::unique_ptr<Program> compiled(const std::string& network, std::int64_t stages_per_device,
                                  const std::function<void(CompileOptions&)>& configure) {
  std::ifstream file(std::string(ASPEN_SOURCE_DIR) + "/tests/cpu/networks/" + network + ".ir");
  std::stringstream text;
  text << file.rdbuf();
  const auto graph = parse_graph(text.str());
  for (const auto& op : graph->ops()) {
    const std::int64_t stage = op->placement.stage;
    op->placement = {.device = stage / stages_per_device, .stage = stage, .phase = stage};
  }
  CompileOptions options{.training = true, .gradient_accumulation = 7};
  options.optimizer.kind = "adam";
  options.optimizer.groups.emplace_back();
  for (const auto& variable : graph->variables()) {
    if (variable->trainable) options.optimizer.groups[0].parameters.push_back(variable->name);
  }
  configure(options);
  return compile(*graph, options, *make_reference_backend());
}

profile::Profile described(const Program& program) {
  profile::Profile profile;
  profile.run.replicas = static_cast<std::int64_t>(program.replicas);
  describe_tasks(program, profile);
  describe_memory(program, profile);
  return profile;
}

// A region ends where its last buffer does, but for room up to the next cache line: nothing in it is unaccounted for.
void expect_regions_are_filled(const profile::Profile& profile) {
  for (const profile::Region& region : profile.memory.regions) {
    std::int64_t end = 0;
    for (const profile::Buffer& buffer : profile.memory.buffers) {
      if (buffer.device != region.device || buffer.on_host != region.on_host) continue;
      if (buffer.offset < region.offset || buffer.offset >= region.offset + region.bytes) continue;
      end = std::max(end, buffer.offset + (buffer.copies - 1) * buffer.stride + buffer.bytes - region.offset);
    }
    EXPECT_LE(end, region.bytes) << region.name;
    EXPECT_GT(end + 64, region.bytes) << region.name << " of device " << region.device;
  }
}

bool are_alive_together(const profile::Buffer& a, const profile::Buffer& b) {
  return a.first < 0 || b.first < 0 || (a.first <= b.last && b.first <= a.last);
}

// A result may take the place of an operand that is read for the last time: the planner then sees one buffer.
void expect_no_overlaps(const profile::Profile& profile) {
  const auto& buffers = profile.memory.buffers;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const profile::Buffer &a = buffers[i], &b = buffers[j];
      if (a.device != b.device || a.on_host != b.on_host || !are_alive_together(a, b)) continue;
      EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset)
          << a.name << " at " << a.offset << " and " << b.name << " at " << b.offset << ", " << a.first << "-" << a.last
          << " and " << b.first << "-" << b.last;
    }
  }
}

void expect_equals_plan(
    const std::string& network, std::int64_t stages_per_device,
    const std::function<void(CompileOptions&)>& configure = [](CompileOptions&) {}) {
  const auto program = compiled(network, stages_per_device, configure);
  const profile::Profile profile = described(*program);
  profile::check(profile);
  for (std::size_t device = 0; device < program->devices.size(); ++device) {
    std::int64_t on_device = 0, on_host = 0;
    for (const profile::Region& region : profile.memory.regions) {
      if (region.device == static_cast<std::int64_t>(device)) (region.on_host ? on_host : on_device) += region.bytes;
    }
    EXPECT_EQ(on_device, planned_bytes(*program, device));
    EXPECT_EQ(on_host, planned_host_bytes(*program, device));
  }
  expect_regions_are_filled(profile);
  expect_no_overlaps(profile);
}

TEST(ProfiledMemory, EqualsThePlanOfOneDevice) {
  expect_equals_plan("tutorial", 4);
  expect_equals_plan("transformer", 4);
}

TEST(ProfiledMemory, EqualsThePlanOfAPipeline) {
  expect_equals_plan("tutorial", 1);
  expect_equals_plan("resnet18", 2, [](CompileOptions& options) { options.recompute = Recompute::kNothing; });
}

TEST(ProfiledMemory, EqualsThePlanOfPhases) {
  expect_equals_plan("transformer", 4, [](CompileOptions& options) {
    options.execution = Execution::kPhased;
    options.liveness = Liveness::kOffDeviceAfterEachPhase;
  });
}

TEST(ProfiledMemory, EqualsThePlanWithStateOffTheDevice) {
  expect_equals_plan("lstm", 1, [](CompileOptions& options) { options.locations.optimizer_state.off_device = true; });
}

TEST(ProfiledMemory, TellsWhatBuffersAreFor) {
  const auto program = compiled("tutorial", 1, [](CompileOptions&) {});
  std::map<profile::BufferKind, int> kinds;
  for (const profile::Buffer& buffer : described(*program).memory.buffers) ++kinds[buffer.kind];
  for (const auto kind :
       {profile::BufferKind::kWeight, profile::BufferKind::kOptimizerState, profile::BufferKind::kAccumulator,
        profile::BufferKind::kActivation, profile::BufferKind::kStash, profile::BufferKind::kGradient}) {
    EXPECT_GT(kinds[kind], 0) << static_cast<int>(kind);
  }
}

// Convolutions and products by stage and pass.
std::map<std::pair<std::int64_t, profile::Pass>, std::multiset<std::string>> products(Recompute recompute) {
  const auto program = compiled("resnet18", 1, [&](CompileOptions& options) { options.recompute = recompute; });
  const profile::Profile profile = described(*program);
  std::map<std::pair<std::int64_t, profile::Pass>, std::multiset<std::string>> result;
  for (const profile::Op& op : profile.ops) {
    if (op.name != "conv" && op.name != "dot") continue;
    result[{profile.tasks[static_cast<std::size_t>(op.task)].stage, op.pass}].insert(op.text);
  }
  return result;
}

TEST(ProfiledOps, TellWhatIsComputedAgain) {
  auto kept = products(Recompute::kNothing), repeated = products(Recompute::kStages);
  std::int64_t num_stages = 0;
  for (const auto& [key, texts] : repeated) num_stages = std::max(num_stages, key.first + 1);
  ASSERT_GT(num_stages, 1);
  for (std::int64_t stage = 0; stage < num_stages; ++stage) {
    const auto& forward = repeated[{stage, profile::Pass::kForward}];
    const auto& again = repeated[{stage, profile::Pass::kRecompute}];
    EXPECT_TRUE(std::includes(forward.begin(), forward.end(), again.begin(), again.end())) << "stage " << stage;
    // The last stage goes back at once, and needs nothing again.
    EXPECT_EQ(again.empty(), stage + 1 == num_stages) << "stage " << stage;
    EXPECT_TRUE((kept[{stage, profile::Pass::kRecompute}].empty())) << "stage " << stage;
    // Gradients are the same with and without.
    EXPECT_EQ((repeated[{stage, profile::Pass::kBackward}]), (kept[{stage, profile::Pass::kBackward}]));
  }
}

TEST(ProfiledOps, CountTheWorkOfProducts) {
  const auto program = compiled("tutorial", 4, [](CompileOptions&) {});
  const profile::Profile profile = described(*program);
  double forward = 0, backward = 0;
  for (const profile::Op& op : profile.ops) {
    if (op.name == "conv" || op.name == "dot") {
      EXPECT_GT(op.flops, static_cast<double>(op.bytes_written) / 4) << op.text;
      (op.pass == profile::Pass::kForward ? forward : backward) += op.flops;
    }
    if (op.is_copy) EXPECT_EQ(op.flops, 0) << op.text;
    EXPECT_FALSE(op.text.empty());
  }
  EXPECT_GT(forward, 0);
}

}  // namespace
}  // namespace aspen::testing
