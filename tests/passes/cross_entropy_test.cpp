// Random classifiers that end in log_softmax and nll, trained for a step with fuse_cross_entropy and without: the
// weights agree. However the classifier is placed, they are the same to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/pipeline.h"
#include "aspen/ops/build.h"
#include "aspen/ops/nll/nll.h"
#include "aspen/ops/softmax/softmax.h"
#include "tests/passes/random_graph.h"
#include "tests/support/interpret.h"

namespace aspen::testing {
namespace {

const Backend& backend() {
  static const auto reference = make_reference_backend();
  return *reference;
}

// A linear layer, log_softmax and a loss, each in a stage of its own if there are several.
class ClassifierMaker {
 public:
  ClassifierMaker(std::uint64_t seed, bool is_cut) : random_(seed), is_cut_(is_cut), b_(*graph_) {}

  std::unique_ptr<Graph> run() {
    const std::int64_t batch = random_.between(1, 5), features = random_.between(1, 6), inner = random_.between(1, 4);
    const bool has_pixels = random_.coin();
    classes_ = random_.between(1, 9);
    Value* x = graph_->add_input("x", {DType::kF32, {has_pixels ? batch * inner : batch, features}});
    Value* h = build::add(b_, build::dot(b_, x, variable({features, classes_})), variable({classes_}));
    Shape target{batch};
    if (has_pixels) {
      h = build::swap_axes(b_, build::reshape(b_, h, {batch, inner, classes_}), 1, 2);
      target.push_back(inner);
    }
    next_stage();
    Value* p = b_.make("log_softmax", {h}, SoftmaxAttrs{.axis = has_pixels || random_.coin() ? 1 : -1});
    if (random_.between(0, 3) == 0) graph_->add_output("p", p);
    next_stage();
    graph_->add_output("loss", b_.make("loss", {loss(p, graph_->add_input("target", {DType::kI32, target}))}));
    return std::move(graph_);
  }

  std::int64_t classes() const { return classes_; }

 private:
  Value* loss(Value* p, Value* target) {
    const std::vector<std::string> reductions{"none", "mean", "sum"};
    NllAttrs attrs{random_.between(-1, classes_ - 1), reductions[static_cast<std::size_t>(random_.between(0, 2))]};
    Value* weight = random_.coin() ? build::unary(b_, "exp", variable({classes_}, false)) : nullptr;
    Value* y = b_.make("nll", {p, target, weight}, attrs);
    if (random_.between(0, 3) == 0) y = build::add(b_, y, b_.make("nll", {p, target, nullptr}, attrs));
    std::vector<std::int64_t> axes;
    for (std::int64_t i = 0; i < y->rank(); ++i) axes.push_back(i);
    return build::reduce_sum(b_, y, axes);
  }

  void next_stage() {
    if (is_cut_) b_.placement.device = ++b_.placement.stage;
  }

  Value* variable(const Shape& shape, bool is_trainable = true) {
    std::string name = fmt::format("w{}", graph_->variables().size());
    return graph_->add_variable(name, VariableKind::kParameter, {DType::kF32, shape}, is_trainable)->value.get();
  }

  RandomNumbers random_;
  bool is_cut_;
  std::int64_t classes_ = 0;
  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>();
  Builder b_;
};

using Variables = std::map<std::string, HostTensor>;

struct Trained {
  Variables variables;  // after a step
  bool is_fused;
};

struct Way {
  bool fuses = true, is_cut = false;
  Recompute recompute = Recompute::kNothing;
};

Trained train(std::uint64_t seed, const Way& way) {
  ClassifierMaker maker(seed, way.is_cut);
  const auto graph = maker.run();
  CompileOptions options{.training = true, .gradient_accumulation = 5, .recompute = way.recompute};
  options.optimizer.kind = "sgd";
  options.optimizer.groups.emplace_back();
  for (const auto& variable : graph->variables()) {
    if (variable->trainable) options.optimizer.groups[0].parameters.push_back(variable->name);
  }
  if (!way.fuses) options.skip_passes = {"fuse_cross_entropy"};
  run_passes(*graph, training_pipeline(), {.options = options, .backend = &backend()});
  Tensors known;
  const Range classes{.int_low = 0, .int_high = maker.classes()};
  for (const auto& input : graph->inputs()) known.emplace(input.get(), random_tensor(input->type(), classes, 1));
  std::uint64_t number = 2;
  for (const auto& variable : graph->variables()) {
    if (variable->kind != VariableKind::kParameter && variable->kind != VariableKind::kSetting) continue;
    known.emplace(variable->value.get(), random_tensor(variable->value->type(), {}, number++));
  }
  const bool is_fused = std::any_of(graph->ops().begin(), graph->ops().end(),
                                    [](const auto& op) { return op->is("cross_entropy_grad"); });
  return {Interpreter(*graph, backend())(known, {.seed = 5, .step = 7}).variables, is_fused};
}

constexpr std::uint64_t kClassifiers = 500;

TEST(FuseCrossEntropy, TrainsTheSame) {
  int num_fused = 0;
  for (std::uint64_t seed = 0; seed < kClassifiers; ++seed) {
    SCOPED_TRACE(seed);
    const Trained expected = train(seed, {.fuses = false}), actual = train(seed, {});
    EXPECT_FALSE(expected.is_fused);
    num_fused += actual.is_fused ? 1 : 0;
    ASSERT_EQ(expected.variables.size(), actual.variables.size());
    for (const auto& [name, tensor] : expected.variables) {
      double largest = 1e-3;
      for (double value : tensor.numbers()) largest = std::max(largest, std::abs(value));
      for (std::int64_t i = 0; i < tensor.size(); ++i) {
        ASSERT_NEAR(tensor.at(i), actual.variables.at(name).at(i), 2e-6 * largest) << name << " " << i;
      }
    }
  }
  EXPECT_GT(num_fused, 300);
}

TEST(FuseCrossEntropy, PlacesAndRecomputationChangeNoBit) {
  for (std::uint64_t seed = 0; seed < kClassifiers; ++seed) {
    SCOPED_TRACE(seed);
    const Variables expected = train(seed, {}).variables;
    EXPECT_EQ(expected, train(seed, {.is_cut = true}).variables);
    EXPECT_EQ(expected, train(seed, {.is_cut = true, .recompute = Recompute::kAll}).variables);
  }
}

}  // namespace
}  // namespace aspen::testing
