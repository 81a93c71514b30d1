// Calls of the host run exactly as often as the model says, whatever the compiler does around them.
#include <atomic>
#include <functional>

#include "aspen/compiler/ir/builder.h"
#include "aspen/ops/build.h"
#include "aspen/ops/host_call/host_call.h"
#include "harness.h"

namespace aspen::testing {
namespace {

class Counter final : public HostFunction {
 public:
  std::string name() const override { return "counter"; }
  void run(std::span<const void* const> inputs, std::span<void* const> outputs) override {
    ++runs;
    if (!outputs.empty()) std::memcpy(outputs[0], inputs[0], 3 * sizeof(float));
  }
  std::atomic<int> runs = 0;
};

class Refusal final : public HostFunction {
 public:
  std::string name() const override { return "refusal"; }
  void run(std::span<const void* const>, std::span<void* const>) override { throw UserError("refused."); }
};

// y = tanh(call(x w)), loss = sum(y y): backward reads y, which can be computed again but for the call. Another call
// has a result that nothing uses, a third has none at all.
class Model {
 public:
  Model() : b_(graph) {
    Value* x = graph.add_input("x", {DType::kF32, {3}});
    Value* w = graph.add_variable("w", VariableKind::kParameter, {DType::kF32, {3}}, true)->value.get();
    Value* product = build::mul(b_, x, w);
    Value* called = call(product, used, "f32[3]");
    call(product, unused, "f32[3]");
    call(product, without_result, "");
    Value* y = build::mul(b_, build::unary(b_, "tanh", called), build::unary(b_, "tanh", w));
    b_.placement = {.device = 1, .stage = 1};
    Value* loss = build::reduce_all(b_, "reduce_sum", build::mul(b_, y, y));
    graph.add_output("loss", b_.make("loss", {loss}));
  }

  Graph graph;
  std::shared_ptr<Counter> used = std::make_shared<Counter>(), unused = std::make_shared<Counter>(),
                           without_result = std::make_shared<Counter>();

 private:
  Value* call(Value* x, std::shared_ptr<HostFunction> function, std::string outputs) {
    Op* op = b_.emit("host_call", {x}, HostCallAttrs{.function = std::move(function), .outputs = std::move(outputs)});
    return op->num_outputs() == 0 ? nullptr : op->output();
  }

  Builder b_;
};

TEST(HostCalls, RunOncePerMicroBatch) {
  for (Execution execution : {Execution::kPipelined, Execution::kSharded, Execution::kPhased}) {
    Model model;
    CompileOptions options{.training = true, .gradient_accumulation = 4, .execution = execution};
    options.recompute = Recompute::kAll;
    options.optimizer.kind = "sgd";
    options.optimizer.groups.push_back({.parameters = {"w"}});
    Executor executor(std::shared_ptr<Program>(compile(model.graph, options, reference())));
    std::vector<float> x(12, 0.5f), loss(4);
    RunRequest request{.gradient_accumulation = 4, .inputs = {x.data()}};
    request.outputs.push_back({.data = loss.data()});
    executor.run(request);
    EXPECT_EQ(model.used->runs, 4);
    EXPECT_EQ(model.unused->runs, 4);
    EXPECT_EQ(model.without_result->runs, 4);
  }
}

TEST(HostCalls, ACheckWithoutResultRaises) {
  Graph graph;
  Builder b(graph);
  Value* x = graph.add_input("x", {DType::kF32, {3}});
  b.emit("host_call", {x}, HostCallAttrs{.function = std::make_shared<Refusal>()});
  graph.add_output("x", x);
  Executor executor(std::shared_ptr<Program>(compile(graph, {}, reference())));
  std::vector<float> data(3), result(3);
  RunRequest request{.inputs = {data.data()}};
  request.outputs.push_back({.data = result.data()});
  EXPECT_THROW(executor.run(request), UserError);
}

}  // namespace
}  // namespace aspen::testing
