#include "tests/cpu/network_trainer.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "aspen/backends/cpu/cpu_backend.h"
#include "aspen/compiler/ir/parser.h"

namespace aspen::testing {
namespace {

constexpr std::int64_t kAccumulation = 7, kCalls = 2;

std::unique_ptr<Graph> load(const std::string& network) {
  std::ifstream file(std::string(ASPEN_SOURCE_DIR) + "/tests/cpu/networks/" + network + ".ir");
  std::stringstream text;
  text << file.rdbuf();
  return parse_graph(text.str());
}

}  // namespace

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

NetworkTrainer::NetworkTrainer(const std::string& network, const Way& way, const ExecutorOptions& options)
    : NetworkTrainer(load(network), way, options) {}

NetworkTrainer::NetworkTrainer(std::unique_ptr<Graph> network, const Way& way, const ExecutorOptions& options)
    : graph_(std::move(network)), backend_(make_cpu_backend()) {
  for (const auto& op : graph_->ops()) {
    std::int64_t stage = op->placement.stage;
    op->placement = {.device = stage / way.stages_per_device, .stage = stage, .phase = stage};
  }
  CompileOptions compile_options{.training = true, .gradient_accumulation = kAccumulation};
  compile_options.optimizer.kind = "adam";
  compile_options.optimizer.groups.emplace_back();
  for (const auto& variable : graph_->variables()) {
    if (variable->trainable) compile_options.optimizer.groups[0].parameters.push_back(variable->name);
  }
  way.configure(compile_options);
  accumulation_ = compile_options.gradient_accumulation;
  program_ = compile(*graph_, compile_options, *backend_);
  executor_ = std::make_unique<Executor>(program_, options);
  executor_->set_random_state(5, 0);
  write_variables();
  make_request();
}

void NetworkTrainer::make_request() {
  auto micro_batches = accumulation_ * static_cast<std::int64_t>(program_->replicas);
  request_.gradient_accumulation = accumulation_;
  for (const auto& input : program_->inputs) inputs_.push_back(draw(input.type, micro_batches));
  for (const auto& input : inputs_) request_.inputs.push_back(input.data());
  for (const auto& output : program_->outputs) {
    outputs_.emplace_back(output.type.bytes() * static_cast<std::size_t>(micro_batches));
  }
  for (auto& output : outputs_) request_.outputs.push_back({.data = output.data()});
}

std::ptrdiff_t NetworkTrainer::count(const std::string& op) const {
  std::ptrdiff_t total = 0;
  for (const Task& task : program_->step) {
    total += std::count_if(task.instructions.begin(), task.instructions.end(),
                           [&](const Instruction& instruction) { return instruction.request.op == op; });
  }
  return total;
}

std::map<std::string, std::vector<std::byte>> NetworkTrainer::train() {
  std::map<std::string, std::vector<std::byte>> result;
  for (int call = 0; call < kCalls; ++call) run();
  for (const auto& variable : program_->variables) {
    if (variable.kind == VariableKind::kAccumulator) continue;
    auto& bytes = result[variable.name];
    bytes.resize(executor_->host_bytes(variable.name));
    executor_->read_variable(variable.name, bytes);
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) result["output " + program_->outputs[i].name] = outputs_[i];
  return result;
}

std::vector<std::byte> NetworkTrainer::draw(const TensorType& type, std::int64_t count, double scale) {
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

void NetworkTrainer::write_variables() {
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

}  // namespace aspen::testing
