// Random convolutional networks, trained for a step with images that lie batch last and without: the weights agree.
// However the network is placed, they are the same to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/pipeline.h"
#include "aspen/ops/build.h"
#include "aspen/ops/conv/conv.h"
#include "aspen/ops/normalize/normalize.h"
#include "aspen/ops/pool/pool.h"
#include "aspen/ops/random/random.h"
#include "aspen/ops/softmax/softmax.h"
#include "tests/passes/random_graph.h"
#include "tests/support/interpret.h"

namespace aspen::testing {
namespace {

const Backend& backend() {
  static const auto reference = make_reference_backend();
  return *reference;
}

// Layers of few channels, then a linear one and the mean square as the loss.
class NetworkMaker {
 public:
  NetworkMaker(std::uint64_t seed, std::int64_t num_stages) : random_(seed), num_stages_(num_stages), b_(*graph_) {}

  std::unique_ptr<Graph> run() {
    const std::int64_t batch = random_.between(8, 11), size = random_.between(7, 10);
    Value* h = graph_->add_input("x", {DType::kF32, {batch, random_.between(1, 3), size, size}});
    const std::int64_t layers = random_.between(3, 9);
    for (std::int64_t i = 0; i < layers; ++i) {
      b_.placement.device = b_.placement.stage = i * num_stages_ / layers;
      h = layer(h);
    }
    const std::int64_t features = h->type().numel() / batch;
    h = build::dot(b_, build::reshape(b_, h, {batch, features}), weight({features, 5}));
    h = build::add(b_, h, weight({5}));
    if (random_.coin()) h = b_.make("log_softmax", {h}, SoftmaxAttrs{.axis = random_.coin() ? 1 : -1});
    if (random_.coin()) graph_->add_output("y", h);
    graph_->add_output("loss", b_.make("loss", {build::mean(b_, build::mul(b_, h, h), {0, 1})}));
    return std::move(graph_);
  }

 private:
  Value* layer(Value* h) {
    const Shape shape = h->shape();
    const std::int64_t channels = shape[1], least = std::min(shape[2], shape[3]);
    switch (random_.between(0, 9)) {
      case 0: return build::unary(b_, "relu", h);
      case 1: return pooled(build::unary(b_, "relu", h));
      case 2: return build::unary(b_, "relu", pooled(h));
      case 3: return build::mul(b_, h, weight({channels, 1, 1}));
      case 4: return normalized(h, {2, 3});
      case 5: return normalized(h, {0, 2, 3});
      case 6: return b_.make("checkpoint", {build::unary(b_, "tanh", h)});
      case 7: return b_.make("dropout", {h}, DropoutAttrs{.p = 0.3, .stream = ++stream_});
      default: break;
    }
    const std::int64_t kernel = random_.between(1, std::min<std::int64_t>(3, least)), padding = random_.between(0, 1);
    const std::int64_t outputs = random_.between(1, 7);
    Value* bias = random_.coin() ? weight({outputs}) : nullptr;
    ConvAttrs attrs{{1, 1}, {padding, 0}, {1, 1}};
    if (random_.between(0, 5) == 0) attrs.stride = {1, 2};  // is no convolution that is turned
    return b_.make("conv", {h, weight({outputs, channels, kernel, kernel}), bias}, attrs);
  }

  Value* pooled(Value* h) {
    if (std::min(h->shape()[2], h->shape()[3]) < 3) return h;
    const std::int64_t stride = random_.between(0, 4) == 0 ? 1 : 2;  // windows that overlap are not turned
    return b_.make("max_pool", {h}, PoolAttrs{{2, 2}, {stride, stride}, {0, 0}, {1, 1}});
  }

  Value* normalized(Value* h, std::vector<std::int64_t> axes) {
    return b_.make("normalize", {h}, NormalizeAttrs{std::move(axes), 1e-2});
  }

  Value* weight(const Shape& shape) {
    std::string name = fmt::format("w{}", graph_->variables().size());
    return graph_->add_variable(name, VariableKind::kParameter, {DType::kF32, shape}, true)->value.get();
  }

  RandomNumbers random_;
  std::int64_t num_stages_, stream_ = 0;
  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>();
  Builder b_;
};

using Variables = std::map<std::string, HostTensor>;

// All variables after a step.
Variables train(Graph& graph, bool turns, Recompute recompute = Recompute::kNothing) {
  CompileOptions options{.training = true, .gradient_accumulation = 5, .recompute = recompute};
  options.optimizer.kind = "sgd";
  options.optimizer.groups.emplace_back();
  for (const auto& variable : graph.variables()) options.optimizer.groups[0].parameters.push_back(variable->name);
  if (!turns) options.skip_passes = {"put_batch_last", "fuse_batch_last"};
  run_passes(graph, training_pipeline(), {.options = options, .backend = &backend()});
  Tensors known;
  for (const auto& input : graph.inputs()) known.emplace(input.get(), random_tensor(input->type(), {}, 1));
  std::uint64_t seed = 2;
  for (const auto& variable : graph.variables()) {
    if (variable->kind != VariableKind::kParameter && variable->kind != VariableKind::kSetting) continue;
    known.emplace(variable->value.get(), random_tensor(variable->value->type(), {}, seed++));
  }
  return Interpreter(graph, backend())(known, {.seed = 5, .step = 7}).variables;
}

bool has_turned_ops(const Graph& graph) {
  return std::any_of(graph.ops().begin(), graph.ops().end(),
                     [](const auto& op) { return op->name().starts_with("conv_last"); });
}

void expect_close(const Variables& expected, const Variables& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (const auto& [name, tensor] : expected) {
    double largest = 1e-3;
    for (double number : tensor.numbers()) largest = std::max(largest, std::abs(number));
    for (std::int64_t i = 0; i < tensor.size(); ++i) {
      ASSERT_NEAR(tensor.at(i), actual.at(name).at(i), 2e-5 * largest) << name << " " << i;
    }
  }
}

constexpr std::uint64_t kNetworks = 1000;

TEST(BatchLast, TrainsTheSame) {
  int num_turned = 0;
  for (std::uint64_t seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(seed);
    auto plain = NetworkMaker(seed, 1).run(), turned = NetworkMaker(seed, 1).run();
    expect_close(train(*plain, false), train(*turned, true));
    EXPECT_FALSE(has_turned_ops(*plain));
    if (has_turned_ops(*turned)) ++num_turned;
  }
  EXPECT_GT(num_turned, 300);  // of those that have several convolutions in a row
}

TEST(BatchLast, PlacesAndRecomputationChangeNoBit) {
  for (std::uint64_t seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(seed);
    auto alone = NetworkMaker(seed, 1).run(), placed = NetworkMaker(seed, 3).run(), again = NetworkMaker(seed, 3).run();
    const Variables expected = train(*alone, true);
    EXPECT_EQ(expected, train(*placed, true));
    EXPECT_EQ(expected, train(*again, true, Recompute::kAll));
  }
}

}  // namespace
}  // namespace aspen::testing
