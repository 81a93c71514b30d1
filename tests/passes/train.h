// Trains a network of two layers for a few updates, from compile options in text form (see run_on_text.h) to the
// contents of all variables: for tests that compare ways of updating weights.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/compiler/compile.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/run_on_text.h"
#include "aspen/ops/build.h"
#include "aspen/runtime/executor.h"
#include "tests/support/host_tensor.h"

namespace aspen::testing {

using Weights = std::map<std::string, std::vector<double>>;

// tanh(x w0) w1, the second layer on the last of the devices, with the mean square error as the loss.
inline std::unique_ptr<Graph> two_layers(std::int64_t num_devices) {
  auto graph = std::make_unique<Graph>();
  Builder b(*graph);
  Value* x = graph->add_input("x", {DType::kF32, {4, 6}});
  Value* target = graph->add_input("target", {DType::kF32, {4, 3}});
  auto parameter = [&](const char* name, Shape shape) {
    return graph->add_variable(name, VariableKind::kParameter, {DType::kF32, std::move(shape)}, true)->value.get();
  };
  Value* h = build::unary(b, "tanh", build::dot(b, x, parameter("w0", {6, 5})));
  b.placement.device = b.placement.stage = num_devices - 1;
  Value* error = build::sub(b, build::dot(b, h, parameter("w1", {5, 3})), target);
  b.make("loss", {build::mean(b, build::mul(b, error, error), {0, 1})});
  return graph;
}

inline HostTensor initial_contents(const ProgramVariable& variable) {
  if (variable.name == "w0") return random_tensor(variable.type, {}, 1);
  if (variable.name == "w1") return random_tensor(variable.type, {}, 2);
  // Learning rate, weight decay, momentum or beta1, dampening or beta2, epsilon, loss scaling, maximal weight norm.
  return HostTensor(variable.type, {0.1, 0.01, 0.9, 0.7, 1e-5, 8, 10});
}

inline Weights train(const std::string& text, std::int64_t num_devices = 1) {
  constexpr std::int64_t kUpdates = 3;
  static const auto backend = make_reference_backend();
  CompileOptions options = parse_compile_options(text + " group=w0,w1");
  auto graph = two_layers(num_devices);
  std::shared_ptr<const Program> program = compile(*graph, options, *backend);
  Executor executor(program, {.thread_per_device = true});  // a missing wait shows only between threads
  for (const auto& variable : program->variables) {
    if (variable.name != "w0" && variable.name != "w1" && variable.name != "settings___0") continue;
    HostTensor contents = initial_contents(variable);
    executor.write_variable(variable.name, {static_cast<const std::byte*>(contents.data()), variable.type.bytes()});
  }
  RunRequest request{.device_iterations = kUpdates, .gradient_accumulation = options.gradient_accumulation};
  std::vector<HostTensor> inputs;
  for (const auto& input : program->inputs) {
    TensorType all = input.type;
    all.shape[0] *= kUpdates * options.gradient_accumulation * static_cast<std::int64_t>(options.replicas);
    inputs.push_back(random_tensor(all, {}, 3 + inputs.size()));
  }
  for (const auto& input : inputs) request.inputs.push_back(input.data());
  executor.run(request);

  Weights result;
  for (const auto& variable : program->variables) {
    if (variable.kind == VariableKind::kAccumulator) continue;
    TensorType type{variable.type.dtype, {static_cast<std::int64_t>(executor.host_bytes(variable.name) / 4)}};
    HostTensor contents(type);
    executor.read_variable(variable.name, {static_cast<std::byte*>(contents.data()), type.bytes()});
    result[variable.name] = contents.numbers();
  }
  return result;
}

}  // namespace aspen::testing
