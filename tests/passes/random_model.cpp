#include "aspen/ops/batch_norm/batch_norm.h"
#include "aspen/ops/build.h"
#include "aspen/ops/nll/nll.h"
#include "aspen/ops/random/random.h"
#include "aspen/ops/softmax/softmax.h"
#include "aspen/ops/unary/unary.h"
#include "tests/passes/random_graph.h"
#include "tests/support/control_layers.h"

namespace aspen::testing {
namespace {

constexpr std::int64_t kBatch = 3, kWidth = 4;

// h = layer(h) through the stages, where a layer may also read any earlier result.
class ModelMaker {
 public:
  ModelMaker(std::uint64_t seed, bool is_placed)
      : random_(seed), is_placed_(is_placed), is_phased_(random_options(seed).execution == Execution::kPhased),
        b_(*graph_) {}

  std::unique_ptr<Graph> run() {
    Value* h = graph_->add_input("x", {DType::kF32, {kBatch, kWidth}});
    Value* labels = graph_->add_input("labels", {DType::kI32, {kBatch}});
    std::int64_t num_stages = random_.between(1, 6), num_devices = random_.between(2, 5);
    for (std::int64_t stage = 0; stage < num_stages; ++stage) {
      std::int64_t device = random_.between(0, num_devices - 1);
      if (is_placed_) b_.placement = {.device = device, .stage = stage, .phase = stage / 2};
      for (std::int64_t i = random_.between(1, 3); i > 0; --i) {
        std::int64_t own = random_.between(0, num_devices - 1);
        if (is_placed_ && is_phased_) b_.placement.device = own;  // data goes to and fro within a phase
        results_.push_back(h);
        h = layer(h);
      }
    }
    Value* p = b_.make("log_softmax", {h}, SoftmaxAttrs{.axis = -1});
    graph_->add_output("p", p);
    Value* loss = b_.make("nll", {p, labels, nullptr}, NllAttrs{.reduction = "mean"});
    graph_->add_output("loss", b_.make("loss", {loss}));
    return std::move(graph_);
  }

 private:
  Value* layer(Value* h) {
    switch (random_.between(0, 9)) {
      case 0: return build::add(b_, h, results_[random_.between(0, std::ssize(results_) - 1)]);
      case 1: return b_.make("dropout", {h}, DropoutAttrs{.p = 0.3, .stream = ++stream_});
      case 2: return with_statistics(h);
      case 6: return loop_over_rows(b_, h, weight({kWidth, kWidth}), weight({kWidth}), random_.coin(), ++stream_);
      case 7: return branch(b_, h, weight({kWidth, kWidth}));
      case 8: return call(b_, h, weight({kWidth, kWidth}), ++stream_);
      case 3: return b_.make("checkpoint", {build::unary(b_, "tanh", h)});
      case 9: return normalized(h);
      default: break;
    }
    return build::unary(b_, "sigmoid", build::add(b_, build::dot(b_, h, weight({kWidth, kWidth})), weight({kWidth})));
  }

  // With what fuse_batch_norms joins, and what it must leave.
  Value* normalized(Value* h) {
    const std::size_t own = results_.size() - 1;
    h = b_.make("batch_norm", {h, weight({1, kWidth}), weight({1, kWidth})}, BatchNormAttrs{.epsilon = 0.1});
    if (random_.coin()) h = build::add(b_, h, results_[own]);
    if (random_.between(0, 4) == 0) results_.push_back(h);
    switch (random_.between(0, 3)) {
      case 0: return build::unary(b_, "relu", h);
      case 1: return b_.make("clamp", {h}, ClampAttrs{-0.5, 0.75, random_.coin()});
      case 2: return build::add(b_, build::unary(b_, "relu", h), h);
      default: return h;
    }
  }

  // A new parameter, or now and then one that another layer has.
  Value* weight(const Shape& shape) {
    for (const auto& variable : graph_->variables()) {
      if (variable->trainable && variable->value->shape() == shape && random_.between(0, 3) == 0) {
        return variable->value.get();
      }
    }
    std::string name = fmt::format("w{}", graph_->variables().size());
    return graph_->add_variable(name, VariableKind::kParameter, {DType::kF32, shape}, true)->value.get();
  }

  // Normalises by the running mean and moves it.
  Value* with_statistics(Value* h) {
    std::string name = fmt::format("running_mean{}", graph_->variables().size());
    Value* mean = graph_->add_variable(name, VariableKind::kBuffer, {DType::kF32, {kWidth}})->value.get();
    Value* moved = build::add(b_, build::mul(b_, mean, 0.9), build::mul(b_, build::mean(b_, h, {0}), 0.1));
    b_.emit("assign", {mean, moved});
    return build::mul(b_, build::sub(b_, h, mean), build::reshape(b_, moved, {1, kWidth}));
  }

  RandomNumbers random_;
  bool is_placed_, is_phased_;
  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>();
  Builder b_;
  std::int64_t stream_ = 0;
  std::vector<Value*> results_;
};

}  // namespace

std::unique_ptr<Graph> random_model(std::uint64_t seed, bool is_placed) { return ModelMaker(seed, is_placed).run(); }

void set_random_optimizer(std::uint64_t seed, const Graph& model, CompileOptions& options) {
  RandomNumbers random(seed);
  OptimizerSpec& spec = options.optimizer;
  spec.kind = std::vector<std::string>{"sgd", "adam", "rmsprop", "lamb"}[random.between(0, 3)];
  spec.groups.push_back({.momentum = random.coin()});
  for (const auto& variable : model.variables()) {
    if (variable->trainable) spec.groups[0].parameters.push_back(variable->name);
  }
  if (random.coin()) spec.max_grad_norm = 0.5;
  spec.scales_loss = random.coin();
  options.recompute = static_cast<Recompute>(random.between(0, 2));
}

}  // namespace aspen::testing
