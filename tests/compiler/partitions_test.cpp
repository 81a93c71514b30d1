// Random networks cut at random over random devices train to the very bits of one device, in every way of executing
// them.
#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "aspen/compiler/ir/builder.h"
#include "aspen/ops/build.h"
#include "harness.h"
#include "tests/support/control_layers.h"

namespace aspen::testing {
namespace {

constexpr std::int64_t kBatch = 2, kWidth = 6;

// A way to run a network: where each layer goes, and the options.
struct Way {
  std::vector<Placement> layers;
  bool overlaps = false;  // inputs and outputs travel while the devices compute
  CompileOptions options;
  std::string optimizer = "adam";
};

// A network of `num_layers` layers with connections from any earlier layer, buffers that the forward pass updates,
// loops, branches, calls and noise. The same seed makes the same network, wherever its layers are placed.
class RandomNetwork {
 public:
  RandomNetwork(std::uint32_t seed, const std::vector<Placement>& layers) : random_(seed), b_(graph_) {
    b_.placement = layers.front();
    values_.push_back(graph_.add_input("x", {DType::kF32, {kBatch, kWidth}}));
    Value* target = graph_.add_input("target", {DType::kF32, {kBatch, kWidth}});
    for (std::size_t i = 0; i < layers.size(); ++i) {
      b_.placement = layers[i];
      values_.push_back(layer(i));
    }
    Value* error = build::sub(b_, values_.back(), target);
    Value* loss = b_.make("loss", {build::reduce_sum(b_, build::mul(b_, error, error), {0, 1})});
    graph_.add_output("loss", loss);
    graph_.add_output("inner", values_[values_.size() / 2]);
  }

  Graph& graph() { return graph_; }
  const std::vector<std::string>& parameters() const { return parameters_; }

 private:
  Value* earlier() { return values_[random_() % values_.size()]; }

  Value* parameter(const std::string& name, Shape shape) {
    parameters_.push_back(name);
    return graph_.add_variable(name, VariableKind::kParameter, {DType::kF32, std::move(shape)}, true)->value.get();
  }

  Value* layer(std::size_t index) {
    Value* x = values_.back();
    switch (random_() % 8) {
      case 4: {
        Value* w = parameter(fmt::format("recurrent{}", index), {kWidth, kWidth});
        Value* bias = parameter(fmt::format("shift{}", index), {kWidth});
        x = loop_over_rows(b_, x, w, bias, random_() % 2 == 0, static_cast<std::int64_t>(index) + 100);
        break;
      }
      case 5: x = branch(b_, x, parameter(fmt::format("chosen{}", index), {kWidth, kWidth})); break;
      case 6:
        x = call(b_, x, parameter(fmt::format("called{}", index), {kWidth, kWidth}), static_cast<std::int64_t>(index));
        break;
      case 0: x = build::add(b_, x, earlier()); break;
      case 1: x = build::mul(b_, build::unary(b_, "tanh", x), earlier()); break;
      case 2: x = build::add(b_, x, parameter(fmt::format("bias{}", index), {kWidth})); break;
      case 3: x = with_statistics(x, index); break;
      default: break;
    }
    Value* weight = parameter(fmt::format("weight{}", index), {kWidth, kWidth});
    return build::unary(b_, "tanh", build::dot(b_, x, weight));
  }

  // Subtracts a running mean, which the layer then updates.
  Value* with_statistics(Value* x, std::size_t index) {
    TensorType type{DType::kF32, {kWidth}};
    Value* mean = graph_.add_variable(fmt::format("mean{}", index), VariableKind::kBuffer, type)->value.get();
    Value* of_batch = build::reduce_sum(b_, x, {0});
    b_.no_grad = true;
    b_.emit("assign", {mean, build::add(b_, build::binary(b_, "mul", mean, 0.9), of_batch)});
    b_.no_grad = false;
    return build::sub(b_, x, mean);
  }

  std::mt19937 random_;
  Graph graph_;
  Builder b_;
  std::vector<Value*> values_;
  std::vector<std::string> parameters_;
};

// Everything a training leaves behind.
struct Outcome {
  std::vector<std::vector<float>> outputs;
  std::map<std::string, std::vector<float>> variables;
  bool operator==(const Outcome&) const = default;
};

Outcome train(std::uint32_t seed, const Way& way) {
  constexpr std::int64_t kIterations = 2;
  RandomNetwork network(seed, way.layers);
  for (std::size_t i = 0; way.overlaps && i < 2; ++i) {
    network.graph().overlap_input(i);
    network.graph().overlap_output(i);
  }
  CompileOptions options = way.options;
  options.training = true;
  options.device_iterations = kIterations;
  options.optimizer.kind = way.optimizer;
  options.optimizer.groups.push_back({.parameters = network.parameters()});
  std::shared_ptr<Program> program = compile(network.graph(), options, reference());
  Executor executor(program, {.thread_per_device = true});

  std::mt19937 random(seed + 1);
  auto draw = [&](std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = static_cast<float>(random() % 2000) / 1000.0f - 1;
    return values;
  };
  for (const ProgramVariable& variable : program->variables) {
    const auto& parameters = network.parameters();
    if (std::find(parameters.begin(), parameters.end(), variable.name) == parameters.end()) continue;
    std::vector<float> values = draw(variable.type.numel());
    executor.write_variable(variable.name, std::as_bytes(std::span(values)));
  }
  std::vector<float> settings(kNumSettings, 0.0f);
  settings[kLearningRate] = 0.05f;
  settings[kMomentum] = 0.9f;
  settings[kDampening] = 0.99f;
  settings[kEpsilon] = 1e-6f;
  settings[kLossScaling] = 1;
  settings[kMaxWeightNorm] = 10;
  executor.write_variable("settings___0", std::as_bytes(std::span(settings)));

  std::int64_t num_batches = kIterations * options.gradient_accumulation * static_cast<std::int64_t>(options.replicas);
  std::vector<float> x = draw(num_batches * kBatch * kWidth), target = draw(num_batches * kBatch * kWidth);
  Outcome outcome;
  outcome.outputs.emplace_back(num_batches);
  outcome.outputs.emplace_back(num_batches * kBatch * kWidth);
  RunRequest request{.device_iterations = kIterations, .gradient_accumulation = options.gradient_accumulation};
  request.inputs = {x.data(), target.data()};
  for (auto& output : outcome.outputs) request.outputs.push_back({.data = output.data()});
  for (int call = 0; call < 2; ++call) executor.run(request);
  for (const auto& variable : program->variables) {
    if (variable.kind == VariableKind::kAccumulator) continue;
    auto& values = outcome.variables[variable.name];
    values.resize(static_cast<std::size_t>(variable.type.numel()));
    executor.read_variable(variable.name, std::as_writable_bytes(std::span(values)));
  }
  return outcome;
}

class Partitions : public ::testing::Test {
 protected:
  std::uint32_t pick(std::uint32_t bound) { return random_() % bound; }

  // Cuts the layers into stages in order, each on a random device.
  std::vector<Placement> cut(std::size_t num_layers, std::int64_t num_stages) {
    std::vector<std::int64_t> devices;
    for (std::int64_t stage = 0; stage < num_stages; ++stage) devices.push_back(pick(4));
    std::vector<Placement> layers;
    for (std::size_t i = 0; i < num_layers; ++i) {
      auto stage = static_cast<std::int64_t>(i) * num_stages / static_cast<std::int64_t>(num_layers);
      layers.push_back({.device = devices[stage], .stage = stage, .phase = stage});
    }
    return layers;
  }

  Way random_way(std::size_t num_layers, std::int64_t num_stages) {
    Way way{.layers = cut(num_layers, num_stages), .overlaps = pick(3) == 0};
    CompileOptions& options = way.options;
    options.prefetch_depth = pick(3);
    options.execution =
        std::array{Execution::kPipelined, Execution::kPipelined, Execution::kSharded, Execution::kPhased}[pick(4)];
    options.recompute =
        std::array{Recompute::kNothing, Recompute::kStages, Recompute::kNorms, Recompute::kAll}[pick(4)];
    options.liveness =
        std::array{Liveness::kAlwaysLive, Liveness::kOffDeviceAfterForward, Liveness::kOffDeviceAfterForwardNoOverlap,
                   Liveness::kOffDeviceAfterEachPhase}[pick(4)];
    options.separate_backward_phase = pick(2) == 0;
    for (TensorLocation* location : {&options.locations.weights, &options.locations.optimizer_state,
                                     &options.locations.accumulators, &options.locations.activations}) {
      location->off_device = pick(4) == 0;
      location->min_elements = 1 + pick(2);
    }
    if (options.execution == Execution::kPhased) {  // where data goes to and fro between the devices of a phase
      for (Placement& layer : way.layers) layer = {.device = pick(3), .stage = layer.stage, .phase = layer.stage / 2};
    }
    return way;
  }

  std::mt19937 random_{17};
};

TEST_F(Partitions, OfRandomNetworksGiveTheBitsOfOneDevice) {
  for (std::uint32_t round = 0; round < 150; ++round) {
    std::size_t num_layers = 2 + pick(8);
    auto num_stages =
        static_cast<std::int64_t>(1 + pick(static_cast<std::uint32_t>(std::min<std::size_t>(num_layers, 6))));
    Way way = random_way(num_layers, num_stages);
    way.options.gradient_accumulation = 2 * num_stages - 1 + pick(3);
    Way alone{.layers = std::vector<Placement>(num_layers)};
    alone.options.gradient_accumulation = way.options.gradient_accumulation;
    ASSERT_EQ(train(round, way), train(round, alone)) << "round " << round;
  }
}

TEST_F(Partitions, SixteenStagesOnSixteenDevices) {
  Way way;
  for (std::int64_t stage = 0; stage < 16; ++stage) way.layers.push_back({.device = stage, .stage = stage});
  way.options.gradient_accumulation = 31;
  Way alone{.layers = std::vector<Placement>(16)};
  alone.options.gradient_accumulation = 31;
  EXPECT_EQ(train(5, way), train(5, alone));
}

// Without running means, which replicas keep to themselves, and without layers that draw numbers, which differ.
bool is_same_in_all_replicas(std::uint32_t seed, const std::vector<Placement>& layers) {
  RandomNetwork network(seed, layers);
  const auto& variables = network.graph().variables();
  return std::none_of(variables.begin(), variables.end(), [](const auto& variable) {
    const std::string& name = variable->name;
    return name.starts_with("mean") || name.starts_with("recurrent") || name.starts_with("called");
  });
}

// Replicas see the micro-batches of an update in turn, so that R replicas with accumulation G see what one device with
// accumulation R * G sees. They add gradients in another order, so the bits differ.
TEST_F(Partitions, FourStagesInFourReplicasEqualOneDevice) {
  Way way;
  for (std::int64_t stage = 0; stage < 4; ++stage) way.layers.push_back({.device = stage, .stage = stage});
  way.options.gradient_accumulation = 7;
  way.options.replicas = 4;
  Way alone{.layers = std::vector<Placement>(4)};
  alone.options.gradient_accumulation = 28;
  std::uint32_t seed = 0;
  while (!is_same_in_all_replicas(seed, way.layers)) ++seed;
  Outcome together = train(seed, way), expected = train(seed, alone);
  ASSERT_EQ(together.variables.size(), expected.variables.size());
  for (const auto& [name, values] : expected.variables) {
    const auto& found = together.variables.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(found[i], values[i], 1e-5) << name << " " << i;
  }
  for (std::size_t i = 0; i < expected.outputs.size(); ++i) {
    for (std::size_t k = 0; k < expected.outputs[i].size(); ++k) {
      EXPECT_NEAR(together.outputs[i][k], expected.outputs[i][k], 1e-5) << i << " " << k;
    }
  }
}

TEST_F(Partitions, ReplicasThatShardTheirWeightsTrainToTheBitsOfThoseThatDoNot) {
  for (std::uint32_t round = 0; round < 40; ++round) {
    std::size_t num_layers = 2 + pick(5);
    std::int64_t num_stages = 1 + pick(2);
    Way whole = random_way(num_layers, num_stages);
    whole.options.gradient_accumulation = 2 * num_stages - 1 + pick(2);
    whole.options.replicas = 2 + pick(3);
    whole.optimizer = std::array{"adam", "sgd", "lamb"}[pick(3)];
    Way sharded = whole;
    sharded.options.locations.weights.sharded = true;
    sharded.options.locations.weights.min_shard_elements = 1 + pick(36);
    sharded.options.locations.optimizer_state.sharded = pick(2) == 0;
    sharded.options.locations.optimizer_state.min_shard_elements = 1 + pick(36);
    ASSERT_EQ(train(round, sharded), train(round, whole)) << "round " << round;
  }
}

// One sum for all replicas is added up in another order than one for each; with one micro-batch per update it is the
// same.
TEST_F(Partitions, ReplicasThatShardTheirSumsTrainLikeThoseThatDoNot) {
  for (std::uint32_t round = 0; round < 40; ++round) {
    std::size_t num_layers = 2 + pick(5);
    std::int64_t num_stages = 1 + pick(2);
    Way whole = random_way(num_layers, num_stages);
    whole.options.gradient_accumulation = 2 * num_stages - 1 + pick(2);
    whole.options.replicas = 2 + pick(3);
    whole.optimizer = std::array{"adam", "sgd", "lamb"}[pick(3)];
    Way sharded = whole;
    sharded.options.locations.accumulators.sharded = true;
    sharded.options.locations.accumulators.min_shard_elements = 1 + pick(36);
    sharded.options.locations.weights.sharded = pick(2) == 0;
    sharded.options.locations.weights.min_shard_elements = 1 + pick(36);
    Outcome found = train(round, sharded), expected = train(round, whole);
    if (whole.options.gradient_accumulation == 1) {
      ASSERT_EQ(found, expected) << "round " << round;
    }
    for (const auto& [name, values] : expected.variables) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_NEAR(found.variables.at(name)[i], values[i], 2e-4) << "round " << round << ", " << name;
      }
    }
    ASSERT_EQ(found, train(round, sharded)) << "round " << round << " again";
  }
}

TEST_F(Partitions, AReplicaKeepsItsShardOfTheWeightsAlone) {
  auto weight_bytes = [](bool is_sharded) {
    RandomNetwork network(1, std::vector<Placement>(4));
    CompileOptions options{.training = true, .replicas = 4};
    options.locations.weights.sharded = is_sharded;
    options.locations.weights.min_shard_elements = 36;
    options.optimizer.kind = "sgd";
    options.optimizer.groups.push_back({.parameters = network.parameters()});
    auto program = compile(network.graph(), options, reference());
    std::size_t bytes = 0;
    for (const ProgramVariable& variable : program->variables) {
      if (variable.name.starts_with("weight")) bytes += variable.places.front().bytes;
    }
    return bytes;
  };
  EXPECT_EQ(weight_bytes(false), 4 * weight_bytes(true));
}

}  // namespace
}  // namespace aspen::testing
