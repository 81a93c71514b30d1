// A training graph the size of a ResNet-18: memory stays in proportion.
#include "aspen/compiler/ir/builder.h"
#include "aspen/ops/build.h"
#include "aspen/ops/conv/conv.h"
#include "aspen/ops/nll/nll.h"
#include "aspen/ops/normalize/normalize.h"
#include "aspen/ops/softmax/softmax.h"
#include "harness.h"

namespace aspen::testing {
namespace {

class Network {
 public:
  explicit Network(std::int64_t channels) : b(graph), channels_(channels) {}

  Value* parameter(const Shape& shape) {
    names.push_back(fmt::format("p{}", names.size()));
    return graph.add_variable(names.back(), VariableKind::kParameter, {DType::kF32, shape}, true)->value.get();
  }

  // Convolution, batch normalisation with running statistics, relu.
  Value* layer(Value* x) {
    ConvAttrs attrs{.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}};
    x = b.make("conv", {x, parameter({channels_, x->shape()[1], 3, 3}), nullptr}, attrs);
    Op* normal = b.emit("normalize", {x}, NormalizeAttrs{.axes = {0, 2, 3}});
    running(normal->output(1));
    running(normal->output(2));
    Shape per_channel{1, channels_, 1, 1};
    x = build::mul(b, normal->output(), build::reshape(b, parameter({channels_}), per_channel));
    x = build::add(b, x, build::reshape(b, parameter({channels_}), per_channel));
    return build::unary(b, "relu", x);
  }

  void running(Value* statistic) {
    Variable* mean = graph.add_variable(fmt::format("running{}", graph.variables().size()), VariableKind::kBuffer,
                                        {DType::kF32, {channels_}});
    Value* flat = build::reshape(b, statistic, {channels_});
    b.no_grad = true;
    Value* next = build::add(b, build::mul(b, mean->value.get(), 0.9), build::mul(b, flat, 0.1));
    b.emit("assign", {mean->value.get(), next});
    b.no_grad = false;
  }

  void loss(Value* x, Value* labels) {
    x = build::mean(b, x, {2, 3});
    x = build::dot(b, x, parameter({10, channels_}), false, true);
    x = b.make("log_softmax", {x}, SoftmaxAttrs{1});
    x = b.make("nll", {x, labels, nullptr}, NllAttrs{});
    graph.add_output("loss", b.make("loss", {x}));
  }

  Graph graph;
  Builder b;
  std::vector<std::string> names;

 private:
  std::int64_t channels_;
};

TEST(LargeGraph, CompilesIntoLittleMemory) {
  constexpr std::int64_t kBatch = 2, kChannels = 8, kSize = 16, kDepth = 36;
  Network net(kChannels);
  Value* x = net.graph.add_input("x", {DType::kF32, {kBatch, 3, kSize, kSize}});
  Value* labels = net.graph.add_input("labels", {DType::kI32, {kBatch}});
  x = net.layer(x);
  for (int i = 0; i < kDepth; ++i) {
    Value* shortcut = x;
    x = net.layer(x);
    if (i % 2 == 1) x = build::add(net.b, x, shortcut);
  }
  net.loss(x, labels);
  CompileOptions options{.training = true};
  options.optimizer.kind = "adam";
  options.optimizer.groups.push_back({.parameters = net.names});

  auto program = compile(net.graph, options, reference());
  EXPECT_GT(net.graph.ops().size(), 1000u);

  // Forward keeps four activations a layer (input of relu, of the affine map and of the convolution, and the
  // normalised value); backward adds a few at a time. Without reuse there would be about ten.
  std::size_t activation = kBatch * kChannels * kSize * kSize * sizeof(float);
  EXPECT_LT(program->devices[0].scratch_bytes, 5 * activation * (kDepth + 1));
  for (const auto& instruction : program->step[0].instructions) EXPECT_NE(instruction.request.op, "assign");
}

}  // namespace
}  // namespace aspen::testing
