// Three updates of four weights. What torch.optim 1.13 yields is written in hexadecimal: the results are equal bit by
// bit.
#include "aspen/ops/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/reference.h"

namespace aspen::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const Numbers kWeights{0.5, -1.25, 3.0, 0.1};
const Numbers kGradients[] = {{0.3, -0.7, 0.05, 1.9}, {-0.2, 0.4, 0.6, -1.1}, {0.11, 0.5, -0.9, 0.7}};

Numbers settings(double lr, double decay, double momentum, double dampening, double max_weight_norm = kInfinity) {
  return {lr, decay, momentum, dampening, 1e-8, 1, max_weight_norm};
}

template <class A>
Numbers train(const char* op, A attrs, const Numbers& settings, std::vector<double> initial_states) {
  std::vector<HostTensor> state{f32({4}, kWeights)};
  for (double value : initial_states) state.push_back(f32({4}, Numbers(4, value)));
  double step = 0;
  for (const Numbers& gradient : kGradients) {
    std::vector<HostTensor> inputs{state[0], f32({4}, gradient), f32({kNumSettings}, settings), f32({}, {step++})};
    inputs.insert(inputs.end(), state.begin() + 1, state.end());
    state = apply(op, inputs, attrs);
  }
  return state[0].numbers();
}

TEST(Sgd, EqualsTorch) {
  EXPECT_EQ(train("sgd", SgdAttrs{}, settings(.1, .01, 0, 0), {}),
            (Numbers{0x1.e900a2p-2, -0x1.442fc2p+0, 0x1.820ee0p+1, -0x1.99d84ap-5}));
  EXPECT_EQ(train("sgd", SgdAttrs{.momentum = true}, settings(.1, .01, .9, .2), {0}),
            (Numbers{0x1.c05fbep-2, -0x1.27ae5ep+0, 0x1.79e280p+1, -0x1.36fbf8p-2}));
  EXPECT_EQ(train("sgd", SgdAttrs{.momentum = true, .nesterov = true}, settings(.1, 0, .9, 0), {0}),
            (Numbers{0x1.b87400p-2, -0x1.36718ap+0, 0x1.7edfcep+1, -0x1.8da122p-2}));
}

TEST(Sgd, MomentumOfZeroLeavesTheVelocityAlone) {
  auto out = apply(
      "sgd", {f32({1}, {1}), f32({1}, {2}), f32({kNumSettings}, settings(.5, 0, 0, .5)), f32({}, {3}), f32({1}, {7})},
      SgdAttrs{.momentum = true});
  EXPECT_EQ(out[0].at(0), 0);
  EXPECT_EQ(out[1].at(0), 7);
}

TEST(Adam, EqualsTorch) {
  EXPECT_EQ(train("adam", AdamAttrs{}, settings(1e-2, .1, .9, .999), {0, 0}),
            (Numbers{0x1.ed9fc0p-2, -0x1.3c57cep+0, 0x1.7d2b1ap+1, 0x1.597fb2p-4}));
  EXPECT_EQ(train("adam", AdamAttrs{.decoupled = true}, settings(1e-2, .1, .9, .999), {0, 0}),
            (Numbers{0x1.efc360p-2, -0x1.3c72c8p+0, 0x1.7ccb2ep+1, 0x1.58d656p-4}));
}

TEST(Adam, WithoutBiasCorrectionTakesTheMeansAsTheyAre) {
  auto out = apply("adam",
                   {f32({1}, {1}), f32({1}, {2}), f32({kNumSettings}, settings(.1, 0, .9, .99)), f32({}, {0}),
                    f32({1}, {0}), f32({1}, {0})},
                   AdamAttrs{.bias_correction = false});
  EXPECT_NEAR(out[0].at(0), 1 - .1 * .2 / .2, 1e-6);
  EXPECT_NEAR(out[1].at(0), .2, 1e-7);
  EXPECT_NEAR(out[2].at(0), .04, 1e-8);
}

TEST(Rmsprop, EqualsTorch) {
  EXPECT_EQ(train("rmsprop", RmspropAttrs{}, settings(1e-2, .1, 0, .9), {0}),
            (Numbers{0x1.dfbf8ep-2, -0x1.3e1c34p+0, 0x1.7a67acp+1, 0x1.2fe0eep-4}));
  EXPECT_EQ(train("rmsprop", RmspropAttrs{.momentum = true, .centered = true}, settings(1e-2, 0, .9, .9), {0, 0, 0}),
            (Numbers{0x1.bc9376p-2, -0x1.356c26p+0, 0x1.6fb8c6p+1, 0x1.f36244p-6}));
}

TEST(Rmsprop, TensorflowVariantKeepsTheLearningRateInTheVelocity) {
  auto out = apply("rmsprop",
                   {f32({1}, {1}), f32({1}, {2}), f32({kNumSettings}, {.1, 0, .5, .75, 2.25, 1, kInfinity}),
                    f32({}, {0}), f32({1}, {1}), f32({1}, {4})},
                   RmspropAttrs{.momentum = true, .tf_variant = true});
  EXPECT_NEAR(out[1].at(0), 1.75, 1e-7);            // .75 * 1 + .25 * 4
  EXPECT_NEAR(out[2].at(0), 2 + .1 * 2 / 2, 1e-6);  // sqrt(1.75 + 2.25) = 2
  EXPECT_NEAR(out[0].at(0), 1 - (2 + .1 * 2 / 2), 1e-6);
}

TEST(Lamb, ScalesTheStepByTheNormsOfWeightAndUpdate) {
  // Without bias correction and with beta 0 the update is g / |g| elementwise: (1, -1), of norm sqrt(2).
  auto lamb = [](Numbers w, double max_norm) {
    return apply("lamb",
                 {f32({2}, w), f32({2}, {3, -5}), f32({kNumSettings}, settings(.1, 0, 0, 0, max_norm)), f32({}, {0}),
                  f32({2}, {0, 0}), f32({2}, {0, 0})},
                 LambAttrs{false})[0]
        .numbers();
  };
  Numbers free = lamb({3, 4}, kInfinity), capped = lamb({3, 4}, 2), from_zero = lamb({0, 0}, kInfinity);
  EXPECT_NEAR(free[0], 3 - .1 * 5 / std::sqrt(2.0), 1e-6);
  EXPECT_NEAR(free[1], 4 + .1 * 5 / std::sqrt(2.0), 1e-6);
  EXPECT_NEAR(capped[0], 3 - .1 * 2 / std::sqrt(2.0), 1e-6);
  EXPECT_NEAR(from_zero[0], -.1, 1e-7);  // a norm of zero: the ratio is 1
}

TEST(ClipScale, ShrinksOnlyWhatIsTooLong) {
  auto scale = [](double norm_squared) {
    return apply("clip_scale", {f32({}, {norm_squared})}, ClipScaleAttrs{2})[0].at(0);
  };
  EXPECT_EQ(scale(1), 1);
  EXPECT_NEAR(scale(16), 0.5, 1e-6);
  EXPECT_TRUE(std::isnan(scale(std::nan(""))));
  EXPECT_EQ(apply("square_sum", {f16({3}, {200, 200, 200})})[0].at(0), 120000);  // more than half can hold
}

TEST(Update, ChecksItsStates) {
  HostTensor w({DType::kF32, {2}}), s({DType::kF32, {kNumSettings}}), step({DType::kF32, {}});
  EXPECT_EQ(user_error([&] {
              apply("adam", {w, w, s, step, w}, AdamAttrs{});
            }),
            "[adam] takes 2 states with these attributes, not 1.");
}

}  // namespace
}  // namespace aspen::testing
