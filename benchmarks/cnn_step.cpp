// Time of a whole training step of the tutorial network (batch 16, SGD with momentum) on one thread, from a graph
// written out here: what the compiler and the cpu backend make of it, without capture or data loading.
// `./dev bench cnn_step`.
#include <benchmark/benchmark.h>

#include <memory>
#include <random>
#include <vector>

#include "aspen/backends/cpu/cpu_backend.h"
#include "aspen/backends/reference/reference_backend.h"
#include "aspen/compiler/compile.h"
#include "aspen/compiler/ir/parser.h"
#include "aspen/runtime/executor.h"

namespace aspen {
namespace {

constexpr const char* kNetwork = R"(graph @main(%x: f32[16, 1, 28, 28], %t: i32[16]) {
  variable %conv1.weight: f32[5, 1, 3, 3] parameter trainable
  variable %conv1.bias: f32[5] parameter trainable
  variable %conv2.weight: f32[12, 5, 5, 5] parameter trainable
  variable %conv2.bias: f32[12] parameter trainable
  variable %norm.weight: f32[12] parameter trainable
  variable %norm.bias: f32[12] parameter trainable
  variable %fc1.weight: f32[100, 972] parameter trainable
  variable %fc1.bias: f32[100] parameter trainable
  variable %fc2.weight: f32[10, 100] parameter trainable
  variable %fc2.bias: f32[10] parameter trainable
  %0: f32[16, 5, 26, 26] = conv(%x, %conv1.weight, %conv1.bias) {stride=[1, 1], padding=[0, 0], dilation=[1, 1]}
  %1: f32[16, 5, 26, 26] = relu(%0)
  %2: f32[16, 5, 13, 13], %3: i32[16, 5, 13, 13] = max_pool(%1) {kernel=[2, 2], stride=[2, 2], padding=[0, 0], dilation=[1, 1]}
  %4: f32[16, 12, 9, 9] = conv(%2, %conv2.weight, %conv2.bias) {stride=[1, 1], padding=[0, 0], dilation=[1, 1]}
  %5: f32[16, 12, 9, 9] = relu(%4)
  %6: f32[16, 3, 324] = reshape(%5) {shape=[16, 3, 324]}
  %7: f32[16, 3, 324], %8: f32[16, 3, 1], %9: f32[16, 3, 1] = normalize(%6) {axes=[2], epsilon=1e-05}
  %10: f32[16, 12, 9, 9] = reshape(%7) {shape=[16, 12, 9, 9]}
  %11: f32[12, 1, 1] = reshape(%norm.weight) {shape=[12, 1, 1]}
  %12: f32[12, 1, 1] = reshape(%norm.bias) {shape=[12, 1, 1]}
  %13: f32[16, 12, 9, 9] = mul(%10, %11)
  %14: f32[16, 12, 9, 9] = add(%13, %12)
  %15: f32[16, 972] = reshape(%14) {shape=[16, 972]}
  %16: f32[16, 100] = dot(%15, %fc1.weight) {transpose_b=true}
  %17: f32[16, 100] = add(%16, %fc1.bias)
  %18: f32[16, 100] = relu(%17)
  %19: f32[16, 10] = dot(%18, %fc2.weight) {transpose_b=true}
  %20: f32[16, 10] = add(%19, %fc2.bias)
  %21: f32[16, 10] = log_softmax(%20) {axis=1}
  %22: f32[], %23: f32[] = nll(%21, %t, _)
  %24: f32[] = loss(%22)
  return out: %21, loss: %24
})";

void train(benchmark::State& state, const Backend& backend) {
  auto graph = parse_graph(kNetwork);
  CompileOptions options{.training = true};
  options.optimizer.kind = "sgd";
  options.optimizer.groups.push_back({.momentum = true});
  for (const auto& variable : graph->variables()) options.optimizer.groups[0].parameters.push_back(variable->name);
  std::shared_ptr<Program> program = compile(*graph, options, backend);
  Executor executor(program);
  std::mt19937 random(0);
  std::uniform_real_distribution<float> uniform(-0.1f, 0.1f);
  for (const auto& variable : program->variables) {
    std::vector<float> values(static_cast<std::size_t>(variable.type.numel()), static_cast<float>(variable.initial));
    bool is_parameter = graph->find_variable(variable.name)->kind == VariableKind::kParameter;
    for (float& value : values) value = is_parameter ? uniform(random) : value;
    if (variable.name.starts_with("settings___")) {
      values[kLearningRate] = 0.001f;
      values[kMomentum] = 0.9f;
    }
    executor.write_variable(variable.name, std::as_bytes(std::span(values)));
  }
  std::vector<float> images(16 * 28 * 28), out(160), loss(1);
  for (float& pixel : images) pixel = 10 * uniform(random);
  std::vector<std::int32_t> labels(16, 3);
  RunRequest request{.inputs = {images.data(), labels.data()}, .outputs = {{out.data()}, {loss.data()}}};
  for (auto _ : state) executor.run(request);
  state.counters["images"] = benchmark::Counter(16, benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace
}  // namespace aspen

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::vector<std::shared_ptr<aspen::Backend>> backends = {aspen::make_cpu_backend(), aspen::make_reference_backend()};
  for (const auto& backend : backends) {
    benchmark::RegisterBenchmark(("cnn_step/" + backend->name()).c_str(), [backend](benchmark::State& state) {
      aspen::train(state, *backend);
    })->Unit(benchmark::kMicrosecond);
  }
  benchmark::RunSpecifiedBenchmarks();
}
