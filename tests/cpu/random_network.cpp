#include "tests/cpu/random_network.h"

#include <utility>
#include <vector>

#include "aspen/ops/build.h"
#include "aspen/ops/conv/conv.h"
#include "aspen/ops/nll/nll.h"
#include "aspen/ops/normalize/normalize.h"
#include "aspen/ops/pool/pool.h"
#include "aspen/ops/random/random.h"
#include "aspen/ops/softmax/softmax.h"
#include "aspen/ops/unary/unary.h"
#include "tests/passes/random_graph.h"

namespace aspen::testing {
namespace {

class NetworkMaker {
 public:
  explicit NetworkMaker(std::uint64_t seed) : random_(seed), b_(*graph_) {}

  std::unique_ptr<Graph> run() {
    const std::int64_t batch = pick({2, 3, 8, 16, 17}), size = random_.between(5, 14);
    Value* h = graph_->add_input("x", {DType::kF32, {batch, pick({1, 3, 8, 32}), size, random_.between(5, 14)}});
    Value* labels = graph_->add_input("labels", {DType::kI32, {batch}});
    for (std::int64_t i = random_.between(3, 8); i > 0; --i) {
      earlier_.push_back(h);
      h = layer(h);
    }
    h = build::reshape(b_, h, {batch, h->type().numel() / batch});
    h = build::add(b_, build::dot(b_, h, weight({5, h->shape()[1]}), false, true), weight({5}));
    graph_->add_output("h", h);
    Value* p = b_.make("log_softmax", {h}, SoftmaxAttrs{.axis = -1});
    Value* loss = b_.make("nll", {p, labels, nullptr}, NllAttrs{.reduction = "mean"});
    graph_->add_output("loss", b_.make("loss", {loss}));
    return std::move(graph_);
  }

 private:
  std::int64_t pick(const std::vector<std::int64_t>& choices) {
    return choices[static_cast<std::size_t>(random_.between(0, std::ssize(choices) - 1))];
  }

  Value* weight(const Shape& shape) {
    const std::string name = "w" + std::to_string(graph_->variables().size());
    return graph_->add_variable(name, VariableKind::kParameter, {DType::kF32, shape}, true)->value.get();
  }

  Value* layer(Value* h) {
    switch (random_.between(0, 11)) {
      case 0: return shortcut(h);
      case 1: return pool(h);
      case 2: return batch_norm(h);
      case 3: return group_norm(h);
      case 4: return b_.make("dropout", {h}, DropoutAttrs{.p = 0.3, .stream = ++stream_});
      case 5: return build::mul(b_, activation(h), random_.coin() ? channels(h) : activation(h));
      case 6: return activation(h);
      default: break;
    }
    Value* y = conv(h);
    if (random_.coin()) y = batch_norm(y);
    if (random_.coin() && y->shape() == h->shape()) y = build::add(b_, y, h);
    if (random_.coin()) y = activation(y);
    return random_.between(0, 3) == 0 ? pool(y) : y;
  }

  Value* conv(Value* h) {
    const std::int64_t depth = h->shape()[1], kernel = pick({1, 3, 3, 5}), stride = pick({1, 1, 2});
    const bool is_depthwise = depth > 1 && random_.between(0, 4) == 0;
    const std::int64_t outputs = is_depthwise ? depth : random_.coin() ? depth : pick({4, 5, 12, 20, 32, 40});
    const std::int64_t groups = is_depthwise ? depth : 1;
    const std::int64_t least = std::min(h->shape()[2], h->shape()[3]);
    const std::int64_t padding = kernel > least || random_.coin() ? kernel / 2 : 0;
    Value* bias = random_.coin() ? weight({outputs}) : nullptr;
    return b_.make("conv", {h, weight({outputs, depth / groups, kernel, kernel}), bias},
                   ConvAttrs{{stride, stride}, {padding, padding}, {1, 1}, groups});
  }

  Value* activation(Value* h) {
    switch (random_.between(0, 4)) {
      case 0: return b_.make("clamp", {h}, ClampAttrs{.low = 0, .high = 1.5});
      case 1: return build::unary(b_, "tanh", h);
      case 2: return build::unary(b_, "sigmoid", h);
      default: return build::unary(b_, "relu", h);
    }
  }

  Value* channels(Value* h) { return build::reshape(b_, weight({h->shape()[1]}), {1, h->shape()[1], 1, 1}); }
  Value* affine(Value* y) { return build::add(b_, build::mul(b_, y, channels(y)), channels(y)); }

  Value* batch_norm(Value* h) { return affine(b_.emit("normalize", {h}, NormalizeAttrs{{0, 2, 3}})->output(0)); }

  Value* group_norm(Value* h) {
    const Shape shape = h->shape();
    const std::int64_t groups = shape[1] % 4 == 0 ? 4 : 1;
    Value* rows = build::reshape(b_, h, {shape[0], groups, h->type().numel() / (shape[0] * groups)});
    return affine(build::reshape(b_, b_.emit("normalize", {rows}, NormalizeAttrs{{2}})->output(0), shape));
  }

  Value* pool(Value* h) {
    if (std::min(h->shape()[2], h->shape()[3]) < 3) return activation(h);
    const std::int64_t kernel = pick({2, 3}), stride = random_.between(1, kernel);
    const PoolAttrs attrs{{kernel, kernel}, {stride, stride}, {0, 0}, {1, 1}};
    return b_.emit(random_.coin() ? "max_pool" : "avg_pool", {h}, attrs)->output(0);
  }

  Value* shortcut(Value* h) {
    std::vector<Value*> alike;
    for (Value* value : earlier_) {
      if (value->shape() == h->shape()) alike.push_back(value);
    }
    Value* other = alike[static_cast<std::size_t>(random_.between(0, std::ssize(alike) - 1))];
    return build::add(b_, h, other);
  }

  RandomNumbers random_;
  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>();
  Builder b_;
  std::int64_t stream_ = 0;
  std::vector<Value*> earlier_;
};

}  // namespace

std::unique_ptr<Graph> random_network(std::uint64_t seed) { return NetworkMaker(seed).run(); }

}  // namespace aspen::testing
