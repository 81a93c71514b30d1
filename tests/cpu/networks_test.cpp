// Captured networks on the cpu backend: whatever way of using devices, the weights are bit for bit those of one device.
// The graphs in networks/ were captured by tests/models/test_many_devices.py, cut into four stages; that test trains
// the same networks from Python. This one runs under the thread sanitizer as well.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <sstream>

#include "aspen/backends/cpu/cpu_backend.h"
#include "aspen/compiler/compile.h"
#include "aspen/compiler/ir/parser.h"
#include "aspen/runtime/executor.h"

namespace aspen {
namespace {

constexpr std::int64_t kAccumulation = 7, kCalls = 2;

// A way to run a network: how many of its four stages share a device, and the options.
struct Way {
  std::string name;
  std::int64_t stages_per_device = 1;
  std::function<void(CompileOptions&)> configure = [](CompileOptions&) {};
};

std::vector<Way> ways() {
  return {
      {"sharded", 1, [](CompileOptions& options) { options.execution = Execution::kSharded; }},
      {"pipelined over two", 2, [](CompileOptions& options) { options.recompute = Recompute::kNothing; }},
      {"pipelined over four", 1, [](CompileOptions& options) { options.recompute = Recompute::kNothing; }},
      {"recomputing", 1, [](CompileOptions& options) { options.recompute = Recompute::kStages; }},
      {"with optimiser state off the device", 1,
       [](CompileOptions& options) { options.locations.optimizer_state.off_device = true; }},
      {"in phases", 4,
       [](CompileOptions& options) {
         options.execution = Execution::kPhased;
         options.liveness = Liveness::kOffDeviceAfterEachPhase;
       }},
  };
}

std::unique_ptr<Graph> load(const std::string& network) {
  std::ifstream file(std::string(ASPEN_SOURCE_DIR) + "/tests/cpu/networks/" + network + ".ir");
  std::stringstream text;
  text << file.rdbuf();
  return parse_graph(text.str());
}

class Trainer {
 public:
  Trainer(const std::string& network, const Way& way, std::size_t num_threads) : graph_(load(network)) {
    for (const auto& op : graph_->ops()) {
      std::int64_t stage = op->placement.stage;
      op->placement = {.device = stage / way.stages_per_device, .stage = stage, .phase = stage};
    }
    CompileOptions options{.training = true, .gradient_accumulation = kAccumulation};
    options.optimizer.kind = "adam";
    options.optimizer.groups.emplace_back();
    for (const auto& variable : graph_->variables()) {
      if (variable->trainable) options.optimizer.groups[0].parameters.push_back(variable->name);
    }
    way.configure(options);
    program_ = compile(*graph_, options, *backend_);
    executor_ = std::make_unique<Executor>(program_, ExecutorOptions{.num_threads = num_threads});
    executor_->set_random_state(5, 0);
    write_variables();
  }

  // Everything a training leaves behind, by name.
  std::map<std::string, std::vector<std::byte>> train() {
    std::map<std::string, std::vector<std::byte>> result;
    RunRequest request{.gradient_accumulation = kAccumulation};
    std::vector<std::vector<std::byte>> inputs, outputs;
    for (const auto& input : program_->inputs) inputs.push_back(draw(input.type, kAccumulation));
    for (const auto& input : inputs) request.inputs.push_back(input.data());
    for (const auto& output : program_->outputs) outputs.emplace_back(output.type.bytes() * kAccumulation);
    for (auto& output : outputs) request.outputs.push_back({.data = output.data()});
    for (int call = 0; call < kCalls; ++call) executor_->run(request);
    for (const auto& variable : program_->variables) {
      if (variable.accumulator) continue;
      auto& bytes = result[variable.name];
      bytes.resize(executor_->host_bytes(variable.name));
      executor_->read_variable(variable.name, bytes);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) result["output " + program_->outputs[i].name] = outputs[i];
    return result;
  }

 private:
  std::vector<std::byte> draw(const TensorType& type, std::int64_t count, double scale = 1) {
    std::vector<std::byte> bytes(type.bytes() * static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < type.numel() * count; ++i) {
      auto number = static_cast<double>(random_() % 2001) / 1000 - 1;
      auto* at = bytes.data() + static_cast<std::size_t>(i) * (type.bytes() / static_cast<std::size_t>(type.numel()));
      if (type.dtype == DType::kF32) {
        *reinterpret_cast<float*>(at) = static_cast<float>(number * scale);
      } else {
        *reinterpret_cast<std::int32_t*>(at) = static_cast<std::int32_t>(random_() % 5);
      }
    }
    return bytes;
  }

  void write_variables() {
    for (const auto& variable : graph_->variables()) {
      const TensorType& type = variable->value->type();
      if (variable->kind == VariableKind::kParameter) {
        double fan_in = static_cast<double>(type.numel()) / static_cast<double>(type.shape[0]);
        executor_->write_variable(variable->name, draw(type, 1, 1 / std::sqrt(fan_in)));
      }
    }
    std::vector<float> settings(kNumSettings, 0.0f);
    settings[kLearningRate] = 0.01f;
    settings[kMomentum] = 0.9f;
    settings[kDampening] = 0.99f;
    settings[kEpsilon] = 1e-6f;
    settings[kLossScaling] = 1;
    executor_->write_variable("settings___0", std::as_bytes(std::span(settings)));
  }

  std::unique_ptr<Graph> graph_;
  std::unique_ptr<Backend> backend_ = make_cpu_backend();
  std::shared_ptr<Program> program_;
  std::unique_ptr<Executor> executor_;
  std::mt19937 random_{9};
};

class Networks : public ::testing::TestWithParam<const char*> {};

TEST_P(Networks, TrainToTheSameBitsInEveryWay) {
  Way alone{.name = "one device", .stages_per_device = 4};
  auto expected = Trainer(GetParam(), alone, 1).train();
  EXPECT_TRUE(Trainer(GetParam(), alone, 2).train() == expected) << "two threads";
  for (const Way& way : ways()) {
    EXPECT_TRUE(Trainer(GetParam(), way, 2).train() == expected) << way.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Captured, Networks, ::testing::Values("tutorial", "resnet18", "transformer", "lstm"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace aspen
