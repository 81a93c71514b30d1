// Training graphs end to end: optimiser, accumulation, clipping, loss scaling.
#include <cmath>
#include <numeric>

#include "aspen/compiler/ir/printer.h"
#include "harness.h"

namespace aspen::testing {
namespace {

using V = std::vector<float>;

// loss = mean((x w - t)^2), x: (B, 2), w: (2, 1).
std::string regression(int batch) {
  return fmt::format(R"(graph @main(%x: f32[{0}, 2], %t: f32[{0}, 1]) {{
    variable %w: f32[2, 1] parameter trainable
    %0: f32[{0}, 1] = dot(%x, %w)
    %1: f32[{0}, 1] = sub(%0, %t)
    %2: f32[{0}, 1] = mul(%1, %1)
    %3: f32[] = reduce_sum(%2) {{axes=[0, 1]}}
    %4: f32[] = full() {{value={0}}}
    %5: f32[] = div(%3, %4)
    %6: f32[] = loss(%5) at "model.py:7"
    return loss: %6
  }})",
                     batch);
}

CompileOptions training(const std::string& kind, std::vector<std::string> parameters = {"w"}) {
  CompileOptions options{.training = true};
  options.optimizer.kind = kind;
  options.optimizer.groups.push_back({.parameters = std::move(parameters)});
  return options;
}

V settings(float lr) {
  V values(kNumSettings, 0.0f);
  values[kLearningRate] = lr;
  values[kLossScaling] = 1;
  values[kMomentum] = 0.9f;
  values[kDampening] = 0.999f;
  values[kEpsilon] = 1e-8f;
  values[kMaxWeightNorm] = 65500;
  return values;
}

// The gradient of `regression`, by hand.
V gradient(const V& x, const V& t, const V& w) {
  V g(2, 0.0f);
  auto batch = t.size();
  for (std::size_t n = 0; n < batch; ++n) {
    float error = x[2 * n] * w[0] + x[2 * n + 1] * w[1] - t[n];
    for (int k : {0, 1}) g[k] += 2 * error * x[2 * n + k] / static_cast<float>(batch);
  }
  return g;
}

const V kX{0.5f, -1, 2, 0.25f, 1, 1, -0.5f, 0.75f}, kT{1, 0, -1, 2};

void expect_near(const V& a, const V& b, float tolerance = 1e-6f) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << "element " << i;
}

TEST(Training, SgdFollowsTheGradient) {
  Session session(regression(4), training("sgd"));
  session.set<float>("settings___0", settings(0.1f));
  V w{1, -2};
  session.set("w", w);
  for (int step = 0; step < 3; ++step) {
    V g = gradient(kX, kT, w);
    for (int k : {0, 1}) w[k] -= 0.1f * g[k];
    session.run({kX, kT});
    expect_near(session.get("w"), w);
  }
}

TEST(Training, UpdatesParametersInPlaceWithoutCopies) {
  Session session(regression(4), training("adam"));
  for (const auto& instruction : session.program().step[0].instructions) EXPECT_NE(instruction.request.op, "assign");
  EXPECT_TRUE(session.program().update.empty());
}

TEST(Training, AdamTakesItsFirstStepAtTheLearningRate) {
  Session session(regression(4), training("adam"));
  session.set<float>("settings___0", settings(0.01f));
  session.set<float>("w", {1, -2});
  V g = gradient(kX, kT, {1, -2});
  session.run({kX, kT});
  expect_near(session.get("w"), {1 - std::copysign(0.01f, g[0]), -2 - std::copysign(0.01f, g[1])}, 1e-5f);
  expect_near(session.get("Accl1___w"), {0.1f * g[0], 0.1f * g[1]});
  expect_near(session.get("Step___w"), {1});
}

TEST(Training, AccumulationOverMicroBatchesEqualsOneLargeBatch) {
  Session large(regression(4), training("sgd"));
  CompileOptions options = training("sgd");
  options.gradient_accumulation = 4;
  Session small(regression(1), options);
  for (Session* session : {&large, &small}) {
    session->set<float>("settings___0", settings(0.1f));
    session->set<float>("w", {1, -2});
    session->run({kX, kT});
    session->run({kX, kT});
  }
  expect_near(large.get("w"), small.get("w"));
  expect_near(small.get("Accum___w"), {0, 0});
}

TEST(Training, SumReductionAddsGradients) {
  CompileOptions options = training("sgd");
  options.gradient_accumulation = 4;
  options.mean_reduction = false;
  Session session(regression(1), options);
  session.set<float>("settings___0", settings(0.1f));
  session.set<float>("w", {1, -2});
  session.run({kX, kT});
  V g = gradient(kX, kT, {1, -2});
  expect_near(session.get("w"), {1 - 0.4f * g[0], -2 - 0.4f * g[1]});
}

TEST(Training, RunsOneUpdatePerDeviceIteration) {
  CompileOptions options = training("sgd");
  options.gradient_accumulation = 2;
  Session session(regression(2), options);
  session.set<float>("settings___0", settings(0.1f));
  V w{1, -2}, x = kX, t = kT;
  x.insert(x.end(), kX.begin(), kX.end());
  t.insert(t.end(), kT.begin(), kT.end());
  session.set("w", w);
  session.run({x, t}, 2);
  for (int step = 0; step < 2; ++step) {
    V g = gradient(kX, kT, w);
    for (int k : {0, 1}) w[k] -= 0.1f * g[k];
  }
  expect_near(session.get("w"), w);
}

TEST(Training, LossScalingLeavesTheUpdateAlone) {
  for (std::int64_t accumulation : {1, 4}) {
    CompileOptions options = training("sgd");
    options.optimizer.scales_loss = true;
    options.gradient_accumulation = accumulation;
    Session session(regression(static_cast<int>(4 / accumulation)), options);
    V values = settings(0.1f);
    values[kLossScaling] = 1024;
    session.set("settings___0", values);
    session.set<float>("w", {1, -2});
    session.run({kX, kT});
    V g = gradient(kX, kT, {1, -2});
    expect_near(session.get("w"), {1 - 0.1f * g[0], -2 - 0.1f * g[1]});
  }
}

TEST(Training, AnchorsCostNothingWhereThereAreNone) {
  const CompileOptions usual = training("adam");
  CompileOptions without = usual, anchored = usual;
  without.skip_passes = {"anchor_gradients", "anchor_tensors"};
  anchored.anchors = {{"gradient", "Gradient___w"}};
  Session first(regression(4), usual), second(regression(4), without), third(regression(4), anchored);
  EXPECT_EQ(to_text(first.graph()), to_text(second.graph()));
  EXPECT_EQ(first.program().step[0].instructions.size(), second.program().step[0].instructions.size());
  EXPECT_EQ(planned_bytes(first.program(), 0), planned_bytes(second.program(), 0));
  EXPECT_NE(to_text(third.graph()), to_text(first.graph()));
}

TEST(Training, ClipsTheNormOfAllGradients) {
  for (bool scales_loss : {false, true}) {
    CompileOptions options = training("sgd");
    options.optimizer.max_grad_norm = 0.5;
    options.optimizer.scales_loss = scales_loss;
    Session session(regression(4), options);
    V values = settings(1);
    values[kLossScaling] = scales_loss ? 8 : 1;
    session.set("settings___0", values);
    session.set<float>("w", {1, -2});
    session.run({kX, kT});
    V g = gradient(kX, kT, {1, -2}), w = session.get("w");
    float norm = std::sqrt(g[0] * g[0] + g[1] * g[1]);
    ASSERT_GT(norm, 0.5f);
    expect_near(w, {1 - 0.5f * g[0] / norm, -2 - 0.5f * g[1] / norm}, 1e-5f);
  }
}

TEST(Training, LeavesParametersOutsideAllGroupsAlone) {
  Session session(regression(4), training("sgd", {"other"}));
  session.set<float>("settings___0", settings(0.1f));
  session.set<float>("w", {1, -2});
  session.run({kX, kT});
  expect_near(session.get("w"), {1, -2});
}

TEST(Training, UpdatesWhatTheModelItselfWroteIntoAParameter) {
  Session session(R"(graph @main(%x: f32[2]) {
    variable %w: f32[2] parameter trainable
    %0: f32[2] = mul(%w, %x)
    %1: f32[] = reduce_sum(%0) {axes=[0]}
    %2: f32[] = loss(%1)
    %3: f32[] = full() {value=2}
    %4: f32[2] = mul(%w, %3) no_grad
    assign(%w, %4)
    return loss: %2
  })",
                  training("sgd"));
  session.set<float>("settings___0", settings(1));
  session.set<float>("w", {10, 20});
  session.run({{1, 2}});
  expect_near(session.get("w"), {19, 38});
}

TEST(Training, UnknownOptimizerIsAnError) { EXPECT_THROW(Session(regression(1), training("adagrad")), UserError); }

TEST(Training, InterruptedAccumulationStartsAfresh) {
  CompileOptions options = training("sgd");
  options.gradient_accumulation = 4;
  Session session(regression(1), options);
  session.set<float>("settings___0", settings(0.1f));
  session.set<float>("w", {1, -2});
  V x(80000, 1.0f), t(40000, 1.0f);
  std::int64_t iterations = 10000;
  RunRequest request{.device_iterations = iterations, .gradient_accumulation = 4, .inputs = {x.data(), t.data()}};
  V loss(40000);
  request.outputs.push_back({.data = loss.data()});
  // Stops at an arbitrary micro-batch, then trains on as if nothing had been accumulated.
  request.should_stop = [] { return true; };
  try {
    while (true) session.executor().run(request);
  } catch (const Interrupted&) {
  }
  expect_near(session.get("Accum___w"), {0, 0});
}

// With a gradient of zeros a parameter still decays, as in PyTorch; one that nothing reaches stays as it is.
TEST(Training, ZeroGradientsDecayWeights) {
  Session session(R"(graph @main(%x: f32[2]) {
    variable %rounded: f32[2] parameter trainable
    variable %stopped: f32[2] parameter trainable
    %0: f32[2] = mul(%rounded, %x)
    %1: f32[2] = round(%0)
    %2: f32[2] = detach(%stopped)
    %3: f32[2] = add(%1, %2)
    %4: f32[] = reduce_sum(%3) {axes=[0]}
    %5: f32[] = loss(%4)
    return loss: %5
  })",
                  training("sgd", {"rounded", "stopped"}));
  V values = settings(0.1f);
  values[kWeightDecay] = 0.5f;
  session.set<float>("settings___0", values);
  session.set<float>("rounded", {2, -4});
  session.set<float>("stopped", {2, -4});
  session.run({{1, 2}});
  expect_near(session.get("rounded"), {1.9f, -3.8f});
  expect_near(session.get("stopped"), {2, -4});
}

// Two parameters that are added up before they are used have one gradient. Each is summed up and updated on the device
// that uses it, and nothing but activations and their gradients travels between the devices.
TEST(Training, ParametersOfALaterStageStayThere) {
  CompileOptions options = training("sgd", {"first", "base", "delta"});
  options.optimizer.groups[0].momentum = true;
  options.gradient_accumulation = 4;
  Session session(R"(graph @main(%x: f32[4, 2]) {
    variable %first: f32[2, 3] parameter trainable
    variable %base: f32[3, 5] parameter trainable
    variable %delta: f32[3, 5] parameter trainable
    %0: f32[4, 3] = dot(%x, %first)
    %1: f32[3, 5] = add(%base, %delta) device 1 stage 1
    %2: f32[4, 5] = dot(%0, %1) device 1 stage 1
    %3: f32[4, 5] = mul(%2, %2) device 1 stage 1
    %4: f32[] = reduce_sum(%3) {axes=[0, 1]} device 1 stage 1
    %5: f32[] = loss(%4) device 1 stage 1
    return loss: %5
  })",
                  options);
  for (const auto& op : session.graph().ops()) {
    for (const Value* input : op->inputs()) {
      if (input == nullptr || input->shape() != Shape{3, 5}) continue;
      EXPECT_EQ(op->placement.device, 1) << op->name() << " uses " << input->name();
      EXPECT_FALSE(op->is("send")) << input->name();
    }
  }
}

}  // namespace
}  // namespace aspen::testing
