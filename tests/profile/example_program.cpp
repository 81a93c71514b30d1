#include "tests/profile/example_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace aspen::testing {
namespace {

using profile::Op;
using profile::Pass;
using profile::Section;
using profile::Task;

constexpr std::int64_t kTokens = 512, kWidth = 256;

// An op of a layer, by its work in units of one product of tokens with a square of weights.
struct Pattern {
  const char* name;
  const char* module;
  int line;
  double products;  // flops
  double passes;    // over the activations
  std::int64_t parts = 1;
};

constexpr std::array<Pattern, 10> kLayer{{
    {"layer_norm", "norm1", 31, 0, 2},
    {"dot", "attention/qkv", 44, 3, 4},
    {"dot", "attention", 47, 0.5, 3},
    {"softmax", "attention", 48, 0, 2},
    {"dot", "attention", 50, 0.5, 3},
    {"dot", "attention/out", 52, 1, 2},
    {"layer_norm", "norm2", 33, 0, 2},
    {"dot", "mlp/fc1", 61, 4, 5},
    {"add, gelu, mul", "mlp", 62, 0, 8, 3},
    {"dot", "mlp/fc2", 63, 4, 5},
}};

class ProgramMaker {
 public:
  ProgramMaker(const ExampleModel& model, profile::Profile& profile) : model_(model), profile_(profile) {}

  void make() {
    const std::int64_t last = model_.devices - 1;
    for (std::int64_t stage = 0; stage < last; ++stage) add_task("forward", stage, {Pass::kForward});
    if (model_.training) {
      add_task("forward and backward", last, {Pass::kForward, Pass::kBackward});
      for (std::int64_t stage = last; stage-- > 0;) add_task("backward", stage, {Pass::kBackward});
      for (std::int64_t stage = 0; stage <= last; ++stage) add_task("update", stage, {Pass::kUpdate});
    } else {
      add_task("forward", last, {Pass::kForward});
    }
    add_waits();
  }

 private:
  void add_task(const char* what, std::int64_t stage, const std::vector<Pass>& passes) {
    Task task{.name = fmt::format("{} of stage {}", what, stage), .device = stage, .stage = stage};
    if (passes.front() == Pass::kUpdate) task.section = Section::kUpdate;
    task.first_op = static_cast<std::int64_t>(profile_.ops.size());
    for (const Pass pass : passes) add_pass(stage, pass);
    task.num_ops = static_cast<std::int64_t>(profile_.ops.size()) - task.first_op;
    profile_.tasks.push_back(task);
  }

  void add_pass(std::int64_t stage, Pass pass) {
    for (std::int64_t i = 0; i < model_.layers_per_device; ++i) {
      const std::int64_t layer =
          stage * model_.layers_per_device + (pass == Pass::kBackward ? model_.layers_per_device - 1 - i : i);
      for (std::size_t j = 0; j < kLayer.size(); ++j) {
        const Pattern& pattern = kLayer[pass == Pass::kBackward ? kLayer.size() - 1 - j : j];
        if (pass == Pass::kUpdate && pattern.products < 1) continue;
        add_op(pattern, stage, layer, pass);
      }
    }
    if (model_.calls_host && stage == 0 && pass == Pass::kForward) add_host_call();
  }

  void add_op(const Pattern& pattern, std::int64_t stage, std::int64_t layer, Pass pass) {
    const double work = stage == model_.slow_device ? model_.slow_factor : 1;
    const double more = pass == Pass::kBackward ? 2 : 1;
    Op op;
    op.name = pass == Pass::kUpdate ? "adam" : pattern.name;
    op.module = fmt::format("encoder/layers/{}/{}", layer, pattern.module);
    op.source = fmt::format("model.py:{}, Layer.forward", pattern.line);
    op.pass = pass;
    op.task = static_cast<std::int64_t>(profile_.tasks.size());
    op.num_parts = pass == Pass::kUpdate ? 1 : pattern.parts;
    op.kernel = op.name == "dot" ? "onednn" : "";
    op.flops = pass == Pass::kUpdate ? 12 * pattern.products * kWidth * kWidth
                                     : 2.0 * pattern.products * kTokens * kWidth * kWidth * work * more +
                                           4.0 * pattern.passes * kTokens * kWidth;
    const double elements = pass == Pass::kUpdate ? 4 * pattern.products * kWidth * kWidth
                                                  : pattern.passes * kTokens * kWidth * work * more;
    op.bytes_read = static_cast<std::int64_t>(4 * elements * 0.6);
    op.bytes_written = static_cast<std::int64_t>(4 * elements * 0.4);
    op.text = fmt::format("%{0} = {1}(%{2}: f32[{3}, {4}]) -> f32[{3}, {4}]", profile_.ops.size(), op.name,
                          profile_.ops.size() - 1, kTokens, kWidth);
    profile_.ops.push_back(op);
  }

  void add_host_call() {
    Op op{.name = "host_call",
          .module = "encoder/sample",
          .source = "model.py:80, Encoder.forward",
          .text = "%h = host_call(aten::special_entr) -> f32[512, 256]",
          .calls_host = true};
    op.task = static_cast<std::int64_t>(profile_.tasks.size());
    op.bytes_read = op.bytes_written = 4 * kTokens * kWidth;
    profile_.ops.push_back(op);
  }

  void add_waits() {
    const std::int64_t last = model_.devices - 1;
    const auto wait = [&](std::int64_t task, std::int64_t on, std::int64_t lag) {
      profile_.waits.push_back({.task = task, .on = on, .lag = lag});
    };
    for (std::int64_t stage = 1; stage <= last; ++stage) wait(stage, stage - 1, 0);
    if (!model_.training) return;
    for (std::int64_t stage = 0; stage < last; ++stage) {
      const std::int64_t backward = 2 * last - stage;
      wait(backward, backward - 1, 0);
      wait(stage, backward, example_depth(model_, stage));
    }
  }

  const ExampleModel& model_;
  profile::Profile& profile_;
};

}  // namespace

std::int64_t example_depth(const ExampleModel& model, std::int64_t stage) {
  return std::max<std::int64_t>(2 * (model.devices - stage) - 1, 1);
}

void add_example_program(const ExampleModel& model, profile::Profile& profile) { ProgramMaker(model, profile).make(); }

}  // namespace aspen::testing
