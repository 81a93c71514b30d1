// Work on the host in the middle of a model: layers, operators of one's own, the decoder, points.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include "capture.h"
#include "error_of.h"

namespace poptorch {
namespace {

using poptorch::tests::error_of;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Trains `forward` of a linear layer beside eager torch; the function must mean the same in both.
struct Net : torch::nn::Module {
  using Middle = std::function<torch::Tensor(torch::Tensor)>;
  explicit Net(Middle f) : middle(std::move(f)) {
    register_module("first", first);
    register_module("last", last);
  }
  torch::Tensor forward(torch::Tensor x) { return identityLoss(last(middle(first(x))).square(), "mean"); }
  Middle middle;
  torch::nn::Linear first{4, 4}, last{4, 2};
};

void expect_trains_like_eager(const Net::Middle& captured, const Net::Middle& plain) {
  torch::manual_seed(2);
  auto model = std::make_shared<Net>(captured);
  torch::manual_seed(2);
  auto eager = std::make_shared<Net>(plain);
  auto trainer = trainingModel(model, Options(), optim::SGD(model->parameters(), {.lr = 0.1}));
  torch::optim::SGD optimizer(eager->parameters(), 0.1);
  const auto x = torch::randn({5, 4});
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    const auto wanted = eager->forward(x);
    wanted.backward();
    optimizer.step();
    expect_close(trainer(x), wanted.detach(), "loss of step " + std::to_string(step));
  }
}

TEST(CpuLayer, RunsWithTheValuesOfTheModel) {
  std::vector<Tensors> seen;
  bool was_captured = false;
  const CPU layer(
      [&](const Tensors& in) {
        seen.push_back({in[0].clone(), in[1].clone()});
        was_captured = was_captured || isRunningOnIpu();
        return Tensors{in[0] + in[1], in[0].sum()};
      },
      "add");
  const auto x = torch::randn({2, 3}), y = torch::randn({2, 3});
  const auto outputs = capture_and_run(
                           [&](const Tensors& in) {
                             const Tensors sums = layer({in[0] * 2, in[1]});
                             return layer({sums[0], sums[1].expand({2, 3})});
                           },
                           {x, y})
                           .outputs;
  expect_close(outputs[0], x * 2 + y + (x * 2).sum(), "sum");
  expect_close(outputs[1], (x * 2 + y).sum(), "total");
  ASSERT_EQ(seen.size(), 4U);  // twice with zeros
  EXPECT_EQ(seen[0][0].abs().sum().item<float>(), 0);
  expect_close(seen[2][0], x * 2, "seen");
  EXPECT_FALSE(was_captured);
}

TEST(CpuLayer, TrainsLikeEager) {
  const auto sine = [](torch::Tensor x) { return torch::sin(x) * x; };
  const CPU layer([&](const Tensors& in) { return Tensors{sine(in[0])}; }, "sine");
  expect_trains_like_eager([&](torch::Tensor x) { return layer({x})[0]; }, sine);
}

TEST(CpuLayer, IdsAreUniqueInAModel) {
  const Body same = [](const Tensors& in) { return in; };
  const CPU one(same, "id"), other(same, "id"), copy = one;
  const auto x = torch::ones({2});
  EXPECT_TRUE(contains(error_of([&] { capture_and_run([&](const Tensors& in) { return other(one(in)); }, {x}); }),
                       "[CPU id] another layer of the model has the ID \"id\" already"));
  EXPECT_TRUE(torch::equal(capture_and_run([&](const Tensors& in) { return copy(one(in)); }, {x}).outputs[0], x));
}

TEST(CpuLayer, WhatItThrowsNamesIt) {
  const CPU layer(
      [](const Tensors& in) {
        if (in[0].any().item<bool>()) throw std::runtime_error("no ones");
        return in;
      },
      "picky");
  EXPECT_TRUE(
      contains(error_of<aspen::Error>([&] { capture_and_run(layer, {torch::ones({2})}); }), "[CPU picky] no ones"));
}

// -- operators ------------------------------------------------------------------------------------------------------

std::vector<TensorSpec> like_first(const std::vector<TensorSpec>& in, const CustomOpAttributes&) { return {in.at(0)}; }

CustomOp power(const std::string& name) {
  return {.name = name,
          .domain = "test.ops",
          .shapes = like_first,
          .kernel = [](const Tensors& in, const Tensors& out, const CustomOpAttributes& attributes) {
            out[0].copy_(in[0].pow(attributes.get<std::int64_t>("exponent")));
          }};
}

TEST(CustomOperator, ComputesInAModelAndGivesZerosOutside) {
  const RegisteredCustomOp registered(power("Power"));
  const auto cube = [](const Tensors& in) { return customOp(in, "Power", "test.ops", 1, {in[0]}, {{"exponent", 3}}); };
  const auto x = torch::randn({2, 3});
  expect_close(capture_and_run(cube, {x}).outputs[0], x * x * x, "cube");
  EXPECT_TRUE(torch::equal(cube({x})[0], torch::zeros({2, 3})));
  const auto whole = torch::tensor({2, 3});  // int64, narrower on the device
  EXPECT_TRUE(torch::equal(capture_and_run(cube, {whole}).outputs[0], torch::tensor({8, 27})));
}

TEST(CustomOperator, GradientIsACompositionOrAnotherOperator) {
  CustomOp square = power("Square");
  square.gradient = [](const CustomOpGradient& call) { return Tensors{call.output_gradients[0] * 2 * call.inputs[0]}; };
  CustomOp cube = power("Cube");
  cube.gradient = [](const CustomOpGradient& call) {
    const auto squared =
        customOp({call.inputs[0]}, "Square", "test.ops", 1, {call.inputs[0]}, CustomOpAttributes{{"exponent", 2}});
    return Tensors{call.output_gradients[0] * 3 * squared[0]};
  };
  const RegisteredCustomOp first(square), second(cube);
  expect_trains_like_eager(
      [](torch::Tensor x) {
        const Tensors squares = customOp({x}, "Square", "test.ops", 1, {x}, {{"exponent", 2}});
        return squares[0] + customOp({x}, "Cube", "test.ops", 1, {x}, {{"exponent", 3}})[0];
      },
      [](torch::Tensor x) { return x * x + x * x * x; });
}

TEST(CustomOperator, SaysWhatIsWrong) {
  const auto x = torch::ones({2, 3});
  const auto call = [&](const std::string& name, const Tensors& examples, const CustomOpAttributes& attributes) {
    return error_of([&] {
      capture_and_run([&](const Tensors& in) { return customOp(in, name, "test.ops", 1, examples, attributes); }, {x});
    });
  };
  EXPECT_TRUE(
      contains(call("Nothing", {x}, {}), "[customOp test.ops.Nothing version 1] no such operator is registered"));
  const RegisteredCustomOp registered(power("Power"));
  EXPECT_TRUE(contains(call("Power", {x[0]}, {{"exponent", 2}}),
                       "gives (Float[2, 3]) for inputs (Float[2, 3]), but the example outputs are (Float[3])."));
  EXPECT_TRUE(contains(error_of<aspen::Error>([&] {
                         capture_and_run([&](const Tensors& in) { return customOp(in, "Power", "test.ops", 1, in); },
                                         {x});
                       }),
                       "[customOp test.ops.Power version 1] attribute \"exponent\" is not given."));
  const RegisteredCustomOp again(power("Power"));
  EXPECT_TRUE(contains(call("Power", {x}, {}), "2 operators are registered under this name"));
  EXPECT_EQ(error_of<ValueError>([] {
              CustomOpAttributes{{"k", "\xc3\xa9"}};
            }),
            "Attribute \"k\" must be ASCII, not \"\xc3\xa9\"");
}

// -- decoding and points --------------------------------------------------------------------------------------------

TEST(Decoder, FindsTheLikeliestLabels) {
  const auto probs = torch::tensor({{0.4, 0.6}, {0.4, 0.6}}).to(torch::kFloat).log().unsqueeze(1);
  const auto lengths = torch::tensor({2});
  const auto outputs = capture_and_run(
                           [&](const Tensors& in) {
                             const auto [values, sizes, paths] = ctcBeamSearchDecoder(in[0], lengths);
                             return Tensors{values, sizes, paths};
                           },
                           {probs})
                           .outputs;
  expect_close(outputs[0].exp(), torch::tensor({{0.84F}}), "probability");
  EXPECT_EQ(outputs[1].item<int>(), 1);
  EXPECT_TRUE(torch::equal(outputs[2].to(torch::kInt), torch::tensor({{{1, 0}}}, torch::kInt)));
  EXPECT_TRUE(torch::equal(std::get<0>(ctcBeamSearchDecoder(probs, lengths)), torch::zeros({1, 1})));
}

TEST(PointsOfAModel, AreSampledAndFound) {
  const auto points = torch::tensor({0.F, 1.F, 10.F, 4.F, 7.F, 7.5F});
  const auto sampled = [](const Tensors& in) { return Tensors{fps(in[0], {0, 4, 6}, 0.5)}; };
  EXPECT_TRUE(torch::equal(capture_and_run(sampled, {points}).outputs[0].to(torch::kInt),
                           torch::tensor({0, 2, 4}, torch::kInt)));
  EXPECT_TRUE(torch::equal(sampled({points})[0], torch::tensor({0, 2, 4}, torch::kInt)));
  const auto found = [](const Tensors& in) { return Tensors{nearest(in[0], in[1])}; };
  expect_like_torch(found, {torch::tensor({{0.F, 9.F}, {8.F, 1.F}}), torch::tensor({{7.F, 1.F}, {1.F, 8.F}})});
  EXPECT_EQ(
      error_of([&] {
        fps(points, {0, 9});
      }),
      "[fps] ptr [0, 9] gives no segments of 6 points; expected at least two numbers, 0 <= ptr[0] <= ptr[1] <= ... "
      "<= 6.");
}

}  // namespace
}  // namespace poptorch
