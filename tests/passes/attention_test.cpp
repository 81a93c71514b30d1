// Random layers of attention, trained for a step with fuse_attention and without: the weights agree. However the layers
// are placed, they are the same to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/pipeline.h"
#include "aspen/ops/build.h"
#include "aspen/ops/softmax/softmax.h"
#include "tests/passes/random_graph.h"
#include "tests/support/interpret.h"

namespace aspen::testing {
namespace {

const Backend& backend() {
  static const auto reference = make_reference_backend();
  return *reference;
}

// Heads are taken apart, attend with some mask or none, and are put together. Every few ops belong to a stage of their
// own if there are several.
class AttentionMaker {
 public:
  AttentionMaker(std::uint64_t seed, bool is_cut) : random_(seed), cuts_(seed), is_cut_(is_cut), b_(*graph_) {}

  std::unique_ptr<Graph> run() {
    batch_ = random_.between(1, 3), rows_ = random_.between(1, 6), heads_ = random_.between(1, 3);
    depth_ = random_.between(1, 4);
    keys_ = random_.coin() ? rows_ : random_.between(1, 6);
    Value* x = graph_->add_input("x", {DType::kF32, {batch_, rows_, heads_ * depth_}});
    Value* memory = graph_->add_input("memory", {DType::kF32, {batch_, keys_, heads_ * depth_}});
    for (std::int64_t i = random_.between(1, 2); i > 0; --i) x = layer(x, memory);
    graph_->add_output("loss", b_.make("loss", {build::mean(b_, build::mul(b_, x, x), {0, 1, 2})}));
    return std::move(graph_);
  }

 private:
  Value* layer(Value* x, Value* memory) {
    Value* q = apart(linear(x), rows_);
    Value *k = apart(linear(memory), keys_), *v = apart(linear(memory), keys_);
    const double scale = random_.coin() ? 0.3 : -0.7;
    const bool scales_first = random_.coin();
    if (scales_first) q = build::mul(b_, q, scale);
    next_stage();
    Value* scores = build::dot(b_, q, k, false, true);
    if (!scales_first) scores = build::mul(b_, scores, scale);
    next_stage();
    scores = masked(scores);
    next_stage();
    Value* weights = b_.make("softmax", {scores}, SoftmaxAttrs{.axis = random_.coin() ? 3 : -1});
    next_stage();
    Value* y = build::dot(b_, weights, v);
    next_stage();
    return linear(build::reshape(b_, build::transpose(b_, y, {0, 2, 1, 3}), {batch_, rows_, heads_ * depth_}));
  }

  Value* linear(Value* x) {
    const std::int64_t width = heads_ * depth_;
    Value* rows = build::reshape(b_, x, {x->type().numel() / width, width});
    return build::reshape(b_, build::dot(b_, rows, variable({width, width})), x->shape());
  }

  Value* apart(Value* x, std::int64_t rows) {
    return build::transpose(b_, build::reshape(b_, x, {batch_, rows, heads_, depth_}), {0, 2, 1, 3});
  }

  Value* masked(Value* scores) {
    const Shape by_key{keys_}, by_row{rows_, keys_}, by_head{1, heads_, rows_, keys_};
    const Shape& shape = random_.coin() ? by_key : random_.coin() ? by_row : by_head;
    switch (random_.between(0, 4)) {
      case 0: return build::add(b_, scores, variable(shape));  // trained: stays as it is
      case 1: return build::add(b_, scores, variable(shape, false));
      case 2: {
        Value* hidden = build::binary(b_, "gt", variable(shape, false), 0.4);
        return build::select(b_, hidden, build::full(b_, DType::kF32, {}, random_.coin() ? -3 : -1e4), scores);
      }
      default: return scores;
    }
  }

  void next_stage() {
    if (is_cut_ && cuts_.coin()) b_.placement.device = ++b_.placement.stage;
  }

  Value* variable(const Shape& shape, bool is_trainable = true) {
    std::string name = fmt::format("w{}", graph_->variables().size());
    return graph_->add_variable(name, VariableKind::kParameter, {DType::kF32, shape}, is_trainable)->value.get();
  }

  RandomNumbers random_, cuts_;
  bool is_cut_;
  std::int64_t batch_ = 0, rows_ = 0, keys_ = 0, heads_ = 0, depth_ = 0;
  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>();
  Builder b_;
};

using Variables = std::map<std::string, HostTensor>;

struct Trained {
  Variables variables;  // after a step
  std::int64_t num_fused;
};

struct Way {
  bool fuses = true, is_cut = false;
  Recompute recompute = Recompute::kNothing;
};

Trained train(std::uint64_t seed, const Way& way) {
  const auto graph = AttentionMaker(seed, way.is_cut).run();
  CompileOptions options{.training = true, .gradient_accumulation = 25, .recompute = way.recompute};
  options.optimizer.kind = "sgd";
  options.optimizer.groups.emplace_back();
  for (const auto& variable : graph->variables()) {
    if (variable->trainable) options.optimizer.groups[0].parameters.push_back(variable->name);
  }
  if (!way.fuses) options.skip_passes = {"fuse_attention"};
  run_passes(*graph, training_pipeline(), {.options = options, .backend = &backend()});
  Tensors known;
  std::uint64_t number = 1;
  for (const auto& input : graph->inputs()) known.emplace(input.get(), random_tensor(input->type(), {}, number++));
  for (const auto& variable : graph->variables()) {
    if (variable->kind != VariableKind::kParameter && variable->kind != VariableKind::kSetting) continue;
    known.emplace(variable->value.get(), random_tensor(variable->value->type(), {}, number++));
  }
  const auto num_fused =
      std::count_if(graph->ops().begin(), graph->ops().end(), [](const auto& op) { return op->is("attention_grad"); });
  return {Interpreter(*graph, backend())(known, {.seed = 5, .step = 7}).variables, num_fused};
}

constexpr std::uint64_t kLayers = 300;

TEST(FuseAttention, TrainsTheSame) {
  std::int64_t num_fused = 0;
  for (std::uint64_t seed = 0; seed < kLayers; ++seed) {
    SCOPED_TRACE(seed);
    const Trained expected = train(seed, {.fuses = false}), actual = train(seed, {});
    EXPECT_EQ(expected.num_fused, 0);
    num_fused += actual.num_fused;
    ASSERT_EQ(expected.variables.size(), actual.variables.size());
    for (const auto& [name, tensor] : expected.variables) {
      double largest = 1e-3;
      for (double value : tensor.numbers()) largest = std::max(largest, std::abs(value));
      for (std::int64_t i = 0; i < tensor.size(); ++i) {
        ASSERT_NEAR(tensor.at(i), actual.variables.at(name).at(i), 5e-6 * largest) << name << " " << i;
      }
    }
  }
  EXPECT_GT(num_fused, 250);
}

TEST(FuseAttention, PlacesAndRecomputationChangeNoBit) {
  for (std::uint64_t seed = 0; seed < kLayers; ++seed) {
    SCOPED_TRACE(seed);
    const Variables expected = train(seed, {}).variables;
    EXPECT_EQ(expected, train(seed, {.is_cut = true}).variables);
    EXPECT_EQ(expected, train(seed, {.is_cut = true, .recompute = Recompute::kAll}).variables);
  }
}

}  // namespace
}  // namespace aspen::testing
