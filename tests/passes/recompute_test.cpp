// Recomputation on a deep network: the results stay the same to the bit, the memory falls.
#include <gtest/gtest.h>

#include <algorithm>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/compiler/compile.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/pipeline.h"
#include "aspen/ops/build.h"
#include "aspen/ops/normalize/normalize.h"
#include "aspen/ops/random/random.h"
#include "tests/support/interpret.h"

namespace aspen::testing {
namespace {

constexpr std::int64_t kWidth = 32;
constexpr std::size_t kActivation = kWidth * kWidth * sizeof(float);
constexpr int kLayers = 12;
constexpr int kLayersPerCheckpoint = 3;

const Backend& backend() {
  static const auto reference = make_reference_backend();
  return *reference;
}

// kLayers times h = tanh(h w) * noise, with a checkpoint after every kLayersPerCheckpoint.
std::unique_ptr<Graph> deep_network(std::int64_t num_devices = 1) {
  auto graph = std::make_unique<Graph>();
  Builder b(*graph);
  Value* h = graph->add_input("x", {DType::kF32, {kWidth, kWidth}});
  for (int i = 0; i < kLayers; ++i) {
    b.placement.device = b.placement.stage = i * num_devices / kLayers;
    TensorType type{DType::kF32, {kWidth, kWidth}};
    Variable* w = graph->add_variable(fmt::format("w{}", i), VariableKind::kParameter, type, true);
    h = build::unary(b, "tanh", build::dot(b, h, w->value.get()));
    h = build::mul(b, h, b.make("random_uniform", {}, RandomAttrs{type.dtype, type.shape, i}));
    if ((i + 1) % kLayersPerCheckpoint == 0) h = b.make("checkpoint", {h});
  }
  graph->add_output("loss", b.make("loss", {build::reduce_all(b, "reduce_sum", h)}));
  return graph;
}

CompileOptions training(Recompute recompute, std::int64_t num_devices = 1) {
  CompileOptions options{.training = true, .gradient_accumulation = 2 * num_devices - 1, .recompute = recompute};
  options.optimizer.kind = "sgd";
  options.optimizer.groups.emplace_back();
  for (int i = 0; i < kLayers; ++i) options.optimizer.groups[0].parameters.push_back(fmt::format("w{}", i));
  return options;
}

// All variables after a step, by name: among them the weights, or the gradients where an update has its own section.
std::map<std::string, HostTensor> train(Graph& graph, Recompute recompute, std::int64_t num_devices) {
  CompileOptions options = training(recompute, num_devices);
  run_passes(graph, training_pipeline(), {.options = options, .backend = &backend()});
  Tensors known{{graph.inputs()[0].get(), random_tensor(graph.inputs()[0]->type(), {}, 1)}};
  for (const auto& variable : graph.variables()) {
    if (variable->kind != VariableKind::kParameter && variable->kind != VariableKind::kSetting) continue;
    known.emplace(variable->value.get(), random_tensor(variable->value->type(), {}, 2));
  }
  return Interpreter(graph, backend())(known, {.seed = 5, .step = 7}).variables;
}

std::size_t count_ops(const Graph& graph, std::string_view name) {
  return static_cast<std::size_t>(
      std::count_if(graph.ops().begin(), graph.ops().end(), [&](const auto& op) { return op->is(name); }));
}

TEST(Recompute, ChangesNoBit) {
  for (std::int64_t num_devices : {1, 3}) {
    auto plain = deep_network(num_devices), again = deep_network(num_devices);
    auto expected = train(*plain, Recompute::kNothing, num_devices);
    auto result = train(*again, Recompute::kAll, num_devices);
    EXPECT_EQ(count_ops(*plain, "tanh"), std::size_t{kLayers});
    EXPECT_EQ(count_ops(*again, "tanh"), std::size_t{2 * kLayers});
    EXPECT_EQ(expected, result);
  }
}

TEST(Recompute, SparesTheLastStage) {
  auto graph = deep_network(3);
  train(*graph, Recompute::kStages, 3);
  EXPECT_EQ(count_ops(*graph, "tanh"), std::size_t{kLayers + kLayers * 2 / 3});
}

std::size_t scratch_bytes(Recompute recompute) {
  auto graph = deep_network();
  return compile(*graph, training(recompute), backend())->devices[0].scratch_bytes;
}

TEST(Recompute, NeedsLessMemoryOnOneDevice) {
  // Without it each layer keeps three tensors: the results of tanh and mul, and the noise. With it, the checkpoints and
  // one part at a time.
  std::size_t keeps_all = scratch_bytes(Recompute::kNothing), keeps_checkpoints = scratch_bytes(Recompute::kAll);
  EXPECT_GE(keeps_all, 3 * kLayers * kActivation);
  std::size_t num_checkpoints = kLayers / kLayersPerCheckpoint;
  EXPECT_LE(keeps_checkpoints, (num_checkpoints + 3 * kLayersPerCheckpoint + 4) * kActivation);
}

TEST(Recompute, KeepsLessPerMicroBatchInAPipeline) {
  auto slot_activations = [](Recompute recompute) {
    auto graph = deep_network(3);
    return compile(*graph, training(recompute, 3), backend())->lanes[0].slot_bytes / kActivation;
  };
  // The first stage has four layers. Its input stays with the host. It keeps the gradient it is sent, and besides the
  // three tensors of each layer, except the last result, which only the next stage reads; or else the one checkpoint
  // within it.
  EXPECT_EQ(slot_activations(Recompute::kNothing), 1u + 3 * 4 - 1);
  EXPECT_EQ(slot_activations(Recompute::kStages), 1u + 1);
}

// kLayers times h = h + silu(normalize(h w) gamma), as networks of normalisations and activations have them.
std::unique_ptr<Graph> normalised_network() {
  auto graph = std::make_unique<Graph>();
  Builder b(*graph);
  TensorType type{DType::kF32, {kWidth, kWidth}};
  Value* h = graph->add_input("x", type);
  for (int i = 0; i < kLayers; ++i) {
    Variable* w = graph->add_variable(fmt::format("w{}", i), VariableKind::kParameter, type, true);
    Variable* gamma = graph->add_variable(fmt::format("gamma{}", i), VariableKind::kParameter, {type.dtype, {kWidth}});
    Value* y = b.make("normalize", {build::dot(b, h, w->value.get())}, NormalizeAttrs{.axes = {1}});
    y = build::mul(b, y, gamma->value.get());
    h = build::add(b, h, build::mul(b, y, build::unary(b, "sigmoid", y)));
  }
  graph->add_output("loss", b.make("loss", {build::reduce_all(b, "reduce_sum", h)}));
  return graph;
}

TEST(RecomputeOfNorms, ChangesNoBitAndRepeatsNormsAndActivationsAlone) {
  auto plain = normalised_network(), again = normalised_network();
  auto expected = train(*plain, Recompute::kNothing, 1);
  EXPECT_EQ(train(*again, Recompute::kNorms, 1), expected);
  for (const char* op : {"normalize", "sigmoid"}) {
    EXPECT_EQ(count_ops(*plain, op), std::size_t{kLayers}) << op;
    EXPECT_EQ(count_ops(*again, op), std::size_t{2 * kLayers}) << op;
  }
  for (const char* op : {"dot", "reduce_sum", "normalize_grad"})
    EXPECT_EQ(count_ops(*again, op), count_ops(*plain, op)) << op;
}

TEST(RecomputeOfNorms, KeepsOneTensorOfEachLayerInPlaceOfThree) {
  auto scratch = [](Recompute recompute) {
    auto graph = normalised_network();
    return compile(*graph, training(recompute), backend())->devices[0].scratch_bytes;
  };
  // Besides the sum h, which the product needs: the results of normalize, mul and sigmoid, or that of the product.
  std::size_t keeps_all = scratch(Recompute::kNothing), keeps_products = scratch(Recompute::kNorms);
  EXPECT_GE(keeps_all, 4 * kLayers * kActivation);
  EXPECT_LE(keeps_products, (2 * kLayers + 6) * kActivation);
}

}  // namespace
}  // namespace aspen::testing
