// Autodiff of small graphs against finite differences, in double precision on the reference backend.
#include <cmath>
#include <random>

#include "aspen/compiler/autodiff/differentiate.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/passes/pipeline.h"
#include "aspen/compiler/passes/rewrite.h"
#include "harness.h"

namespace aspen::testing {
namespace {

struct Model {
  const char* name;
  const char* text;  // has inputs and f64 parameters; the loss is its first output
};

// Each shows another way a gradient can flow.
const Model kModels[] = {
    {"chain", R"(graph @main(%x: f64[3, 2]) {
      variable %w: f64[2, 4] parameter trainable
      variable %b: f64[4] parameter trainable
      %0: f64[3, 4] = dot(%x, %w)
      %1: f64[3, 4] = add(%0, %b)
      %2: f64[3, 4] = tanh(%1)
      %3: f64[3, 4] = mul(%2, %2)
      %4: f64[] = reduce_sum(%3) {axes=[0, 1]}
      %5: f64[] = loss(%4)
      return loss: %5
    })"},
    {"shared_value", R"(graph @main(%x: f64[4]) {
      variable %w: f64[4] parameter trainable
      %0: f64[4] = mul(%x, %w)
      %1: f64[4] = exp(%0)
      %2: f64[4] = sin(%0)
      %3: f64[4] = mul(%1, %2)
      %4: f64[4] = add(%3, %0)
      %5: f64[4] = mul(%4, %w)
      %6: f64[] = reduce_sum(%5) {axes=[0]}
      %7: f64[] = loss(%6)
      return loss: %7
    })"},
    {"tied_weights", R"(graph @main(%x: f64[2, 3]) {
      variable %w: f64[3, 3] parameter trainable
      %0: f64[2, 3] = dot(%x, %w)
      %1: f64[2, 3] = sigmoid(%0)
      %2: f64[2, 3] = dot(%1, %w) {transpose_b=true}
      %3: f64[2, 3] = log_softmax(%2) {axis=1}
      %4: f64[2] = reduce_max(%3) {axes=[1]}
      %5: f64[] = reduce_sum(%4) {axes=[0]}
      %6: f64[] = loss(%5)
      return loss: %6
    })"},
    {"loop", R"(graph @main(%xs: f64[4, 2, 3]) {
      variable %h0: f64[2, 3] parameter trainable
      variable %w: f64[3, 3] parameter trainable
      variable %b: f64[3] parameter trainable
      variable %s: f64[2, 3] parameter trainable
      %h: f64[2, 3], %hs: f64[4, 2, 3] = loop(%h0, %xs, %w, %b, %s) {count=4, carried=1, sliced=1, body=graph @turn(%h: f64[2, 3], %x: f64[2, 3], %w: f64[3, 3], %b: f64[3], %s: f64[2, 3]) {
          %0: f64[2, 3] = dot(%h, %w)
          %1: f64[2, 3] = add(%0, %b)
          %2: f64[2, 3] = mul(%x, %s)
          %3: f64[2, 3] = add(%1, %2)
          %4: f64[2, 3] = tanh(%3)
          %5: f64[2, 3] = dot(%4, %w) {transpose_b=true}
          %6: f64[2, 3] = sin(%5)
          return h: %4, hs: %6
        }}
      %0: f64[4, 2, 3] = mul(%hs, %hs)
      %1: f64[] = reduce_sum(%0) {axes=[0, 1, 2]}
      %2: f64[] = reduce_sum(%h) {axes=[0, 1]}
      %3: f64[] = mul(%1, %2)
      %4: f64[] = loss(%3)
      return loss: %4
    })"},
    {"loop_of_which_only_rows_are_used", R"(graph @main(%x: f64[3]) {
      variable %w: f64[5, 3] parameter trainable
      %h: f64[3], %unused: f64[3], %hs: f64[5, 3] = loop(%x, %x, %w) {count=5, carried=2, sliced=1, reverse=true, body=graph @turn(%h: f64[3], %g: f64[3], %w: f64[3]) {
          %0: f64[3] = mul(%g, %w)
          %1: f64[3] = sin(%h)
          %2: f64[3] = mul(%1, %0)
          return h: %0, g: %h, hs: %2
        }}
      %0: f64[] = reduce_sum(%hs) {axes=[0, 1]}
      %1: f64[] = loss(%0)
      return loss: %1
    })"},
    {"branches", R"(graph @main(%x: f64[3]) {
      variable %w: f64[3] parameter trainable
      variable %v: f64[3] parameter trainable
      %zero: f64[] = full() {dtype=f64, shape=[], value=0}
      %0: f64[3] = mul(%x, %w)
      %1: f64[] = reduce_sum(%0) {axes=[0]}
      %2: bool[] = gt(%1, %zero)
      %3: bool[] = le(%1, %zero)
      %4: f64[3] = cond(%2, %0, %v) {then_body=graph @then(%x: f64[3], %v: f64[3]) {
          %0: f64[3] = sin(%x)
          %1: f64[3] = mul(%0, %v)
          return y: %1
        }, else_body=graph @else(%x: f64[3], %v: f64[3]) {
          %0: f64[3] = exp(%x)
          return y: %0
        }}
      %5: f64[3] = cond(%3, %0, %v) {then_body=graph @then(%x: f64[3], %v: f64[3]) {
          %0: f64[3] = sin(%x)
          return y: %0
        }, else_body=graph @else(%x: f64[3], %v: f64[3]) {
          %0: f64[3] = tanh(%x)
          %1: f64[3] = mul(%0, %v)
          return y: %1
        }}
      %6: f64[3] = mul(%4, %5)
      %7: f64[] = reduce_sum(%6) {axes=[0]}
      %8: f64[] = loss(%7)
      return loss: %8
    })"},
    {"loops_in_a_call", R"(graph @main(%x: f64[3]) {
      variable %w: f64[3] parameter trainable
      %0: f64[3] = call(%x, %w) {body=graph @layer(%x: f64[3], %w: f64[3]) {
          %h: f64[3] = loop(%x, %w) {count=3, carried=1, body=graph @turn(%h: f64[3], %w: f64[3]) {
              %0: f64[3] = loop(%h, %w) {count=2, carried=1, body=graph @turn(%h: f64[3], %w: f64[3]) {
                  %0: f64[3] = mul(%h, %w)
                  %1: f64[3] = sin(%0)
                  return h: %1
                }}
              %1: f64[3] = add(%0, %w)
              return h: %1
            }}
          return y: %h
        }}
      %1: f64[] = reduce_sum(%0) {axes=[0]}
      %2: f64[] = loss(%1)
      return loss: %2
    })"},
    {"several_results_and_shapes", R"(graph @main(%x: f64[2, 6]) {
      variable %scale: f64[1, 6] parameter trainable
      variable %shift: f64[] parameter trainable
      %0: f64[2, 6] = mul(%x, %scale)
      %1: f64[2, 6], %2: f64[2, 1], %3: f64[2, 1] = normalize(%0) {axes=[1], epsilon=0.1}
      %4: f64[6, 2] = transpose(%1) {permutation=[1, 0]}
      %5: f64[3, 4] = reshape(%4) {shape=[3, 4]}
      %6: f64[2, 4] = slice(%5) {starts=[0, 0], ends=[3, 4], steps=[2, 1]}
      %7: f64[2, 4] = add(%6, %shift)
      %8: f64[2, 4] = mul(%7, %7)
      %9: f64[2, 4] = mul(%8, %6)
      %10: f64[] = reduce_sum(%9) {axes=[0, 1]}
      %11: f64[] = loss(%10)
      return loss: %11
    })"},
};

using Doubles = std::vector<double>;

// Runs a compiled graph with one micro-batch of doubles.
class Runner {
 public:
  explicit Runner(Graph& graph) : executor_(std::shared_ptr<Program>(compile(graph, {}, reference()))) {}

  void set(const std::string& name, const Doubles& values) {
    executor_.write_variable(name, std::as_bytes(std::span(values)));
  }
  std::vector<Doubles> run(const std::vector<Doubles>& inputs) {
    RunRequest request;
    for (const auto& input : inputs) request.inputs.push_back(input.data());
    std::vector<Doubles> results;
    for (const auto& output : executor_.program().outputs) results.emplace_back(output.type.numel());
    for (auto& result : results) request.outputs.push_back({.data = result.data()});
    executor_.run(request);
    return results;
  }

 private:
  Executor executor_;
};

class Differentiate : public ::testing::TestWithParam<Model> {
 protected:
  Doubles random(std::int64_t count) {
    std::uniform_real_distribution<double> distribution(-1, 1);
    Doubles values(static_cast<std::size_t>(count));
    for (double& value : values) value = distribution(generator_);
    return values;
  }
  std::mt19937 generator_{17};
};

TEST_P(Differentiate, AgreesWithFiniteDifferences) {
  auto graph = parse_graph(GetParam().text);
  std::vector<Pass> passes{find_pass("select_loss"), find_pass("differentiate")};
  CompileOptions options{.training = true};
  run_passes(*graph, passes, {.options = options});
  auto trained = variables_with_gradients(*graph);
  ASSERT_EQ(trained.size(), graph->variables().size());
  for (Variable* parameter : trained) {
    graph->add_output(parameter->name, parameter->gradient());
    graph->set_gradient(*parameter, nullptr);
  }

  std::vector<Doubles> inputs, parameters;
  for (const auto& input : graph->inputs()) inputs.push_back(random(input->type().numel()));
  for (const Variable* parameter : trained) parameters.push_back(random(parameter->value->type().numel()));
  Runner runner(*graph);
  for (std::size_t p = 0; p < trained.size(); ++p) runner.set(trained[p]->name, parameters[p]);
  auto results = runner.run(inputs);

  constexpr double kStep = 1e-5;
  for (std::size_t p = 0; p < trained.size(); ++p) {
    const std::string& name = trained[p]->name;
    for (std::size_t i = 0; i < parameters[p].size(); ++i) {
      Doubles moved = parameters[p];
      moved[i] += kStep;
      runner.set(name, moved);
      double above = runner.run(inputs)[0][0];
      moved[i] -= 2 * kStep;
      runner.set(name, moved);
      double below = runner.run(inputs)[0][0];
      EXPECT_NEAR(results[1 + p][i], (above - below) / (2 * kStep), 1e-7) << name << "[" << i << "]";
    }
    runner.set(name, parameters[p]);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Differentiate, ::testing::ValuesIn(kModels),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DifferentiateErrors, ARuleThatForgetsAnInputIsNamed) {
  OpDef forgetful("forgetful");
  forgetful.input("x", "").input("y", "").output("z", "");
  forgetful.infer([](const InferContext& c) { return std::vector<TensorType>{c.in(0)}; });
  forgetful.gradient([](GradientContext& c) { c.set(0, c.grad()); });
  auto graph = parse_graph("graph @main() {\n variable %w: f32[] parameter trainable\n return\n}");
  Value* w = graph->find_variable("w")->value.get();
  Op* op = graph->add_op(forgetful, {w, w}, Attrs());
  graph->add_op(op_registry().find("loss"), {op->output()}, Attrs());
  CompileOptions options{.training = true};
  try {
    differentiate(*graph, {.options = options});
    FAIL() << "no error";
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find("the gradient rule of forgetful says nothing about input 1 (\"y\")"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace aspen::testing
