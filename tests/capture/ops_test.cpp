// The functions of poptorch/ops.h: in a captured model they give what they give on the host, which is what torch gives.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include "capture.h"
#include "error_of.h"

namespace poptorch {
namespace {

const torch::Tensor kA = torch::randn({4, 6}), kB = torch::randn({6, 8});

using poptorch::tests::error_of;

torch::Tensor captured(const std::function<torch::Tensor(torch::Tensor)>& function, const torch::Tensor& x) {
  return capture_and_run([&](const Tensors& in) { return Tensors{function(in[0])}; }, {x}).outputs[0];
}

TEST(Ops, IdentityLossReduces) {
  for (const char* reduction : {"sum", "mean", "none"}) {
    expect_like_torch([&](const Tensors& in) { return Tensors{identityLoss(in[0], reduction)}; }, {kA});
  }
  expect_close(identityLoss(kA, "mean"), kA.mean(), "mean");
  EXPECT_EQ(error_of<ArgumentError>([] { identityLoss(kA, "median"); }),
            "The reduction of identityLoss must be \"sum\", \"mean\" or \"none\", not \"median\"");
}

TEST(Ops, IdentitiesGiveTheTensor) {
  const auto all = [](const Tensors& in) {
    Tensors kept = recomputationCheckpoint({in[0] + 1, in[0] - 1});
    kept.push_back(nop(in[0]));
    kept.push_back(setAvailableMemory(in[0].matmul(in[0].t()), 0.3));
    return kept;
  };
  expect_like_torch(all, {kA});
  EXPECT_TRUE(nop(kA).is_same(kA));
}

TEST(Ops, PrintsATensorEachTimeItIsComputed) {
  const auto x = torch::tensor({1.5F, 2.0F});
  testing::internal::CaptureStderr();
  const auto print = [](torch::Tensor t) {
    return ipuPrintTensor(t, "mine", {.float_format = FloatFormat::Fixed, .open_bracket = "<"}) * 1;
  };
  print(x);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  EXPECT_TRUE(torch::equal(captured(print, x), x));
  const std::string shown = testing::internal::GetCapturedStderr();
  EXPECT_NE(shown.find("mine"), std::string::npos) << shown;
  EXPECT_NE(shown.find("<1.500, 2.000)"), std::string::npos) << shown;
}

TEST(Ops, MatMulInParts) {
  using Mode = MatMulSerializationMode;
  for (const auto& [mode, factor] : {std::pair(Mode::InputChannels, 2), std::pair(Mode::ReducingDim, 3),
                                     std::pair(Mode::OutputChannels, 4), std::pair(Mode::Disabled, 0)}) {
    const Function split = [mode = mode, factor = factor](const Tensors& in) {
      return Tensors{serializedMatMul(in[0], in[1], mode, factor, /*keep_precision=*/true)};
    };
    expect_like_torch(split, {kA, kB});
    expect_close(split({kA, kB})[0], kA.matmul(kB), "host");
  }
  EXPECT_EQ(error_of<ArgumentError>([] { serializedMatMul(kA, kB, Mode::InputChannels, 5); }),
            "factor 5 does not divide the size 4 of the dimension that MatMulSerializationMode::InputChannels splits");
}

TEST(Ops, WindowsBeginWhereATensorSays) {
  for (const std::int64_t start : {0, 2, 5}) {
    const Function slice = [](const Tensors& in) { return Tensors{dynamicSlice(in[0], 1, in[1], 4, 2)}; };
    const Tensors inputs = {kA, torch::tensor({start})};
    expect_like_torch(slice, inputs);
    expect_close(slice(inputs)[0], kA.index_select(1, torch::tensor({start % 6, (start + 2) % 6})), "slice");
  }
  const Function update = [](const Tensors& in) { return Tensors{dynamicUpdate(in[0], in[1], 1, in[2], 2)}; };
  const Tensors inputs = {kA, torch::zeros({4, 2}), torch::tensor({3})};
  expect_like_torch(update, inputs);
  torch::Tensor expected = kA.clone();
  expected.narrow(1, 3, 2).zero_();
  expect_close(update(inputs)[0], expected, "update");
}

TEST(Ops, WindowsMustFit) {
  const auto start = torch::tensor(1);
  EXPECT_EQ(
      error_of([&] { dynamicSlice(kA, 0, start, 9, 1); }),
      "[dynamicSlice] size 9 and step 1 do not fit dimension 0 of [4, 6]; expected 1 <= size <= 4 and step >= 1.");
  EXPECT_EQ(error_of([&] { dynamicSlice(kA, 0, kB, 1, 1); }),
            "[dynamicSlice] start must be an integer tensor of one element, not Float[6, 8].");
  EXPECT_EQ(
      error_of([&] { dynamicUpdate(kA, kB[0], 1, start, 2); }),
      "[dynamicUpdate] src is Float[8] and input Float[4, 6]; expected the same number of dimensions and the same "
      "type.");
}

// -- control flow -----------------------------------------------------------------------------------------------------

struct Doubles : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    return identityLoss(forLoop(2, [](const Tensors& y) { return Tensors{y[0] * 2}; }, {x * weight})[0],
                        LossReduction::Sum);
  }
  torch::Tensor weight = register_parameter("weight", torch::ones({1}));
};

struct Chooses : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x, torch::Tensor flag) {
    const Body triple = [](const Tensors& v) { return Tensors{v[0] * 3}; };
    const Body root = [](const Tensors& v) { return Tensors{(v[0] - 2).sqrt()}; };
    return identityLoss(cond(flag, triple, {x + weight}, root, {x + weight})[0], LossReduction::Sum);
  }
  torch::Tensor weight = register_parameter("weight", torch::full({1}, 2.0));
};

TEST(Ops, LoopsFeedTheirResultsBack) {
  const Function loop = [](const Tensors& in) {
    return forLoop(3,
                   [](const Tensors& v) {
                     v[0].add_(v[1]);  // a value of the loop's own
                     return Tensors{v[0], v[1] * 2};
                   },
                   {in[0], in[0]});
  };
  expect_like_torch(loop, {kA});
  expect_close(loop({kA})[0], kA * 8, "host");
  EXPECT_EQ(
      error_of([] { forLoop(1, [](const Tensors& v) { return Tensors{v[0][0]}; }, {kA}); }),
      "[forLoop] the body takes (Float[4, 6]) and returns (Float[6]); it must return tensors like those it takes.");
}

TEST(Ops, LoopsAndChoicesAreTrained) {
  auto model = std::make_shared<Doubles>();
  auto trainer = trainingModel(model, Options(), optim::SGD(model->parameters(), {.lr = 0.5}));
  trainer(kA);
  trainer.copyWeightsToHost();
  expect_close(model->weight.detach(), 1 - 0.5 * 4 * kA.sum().reshape({1}), "loop");  // doubled twice

  const auto trained = [](double x, bool flag) {
    auto chooses = std::make_shared<Chooses>();
    auto executor = trainingModel(chooses, Options(), optim::SGD(chooses->parameters(), {.lr = 0.5}));
    executor(torch::full({3}, x), torch::tensor({flag}));
    executor.copyWeightsToHost();
    return chooses->weight.detach();
  };
  // Where the product is chosen, the infinite derivative of the root of 0 is not met.
  expect_close(trained(0, true), torch::full({1}, 2 - 0.5 * 3 * 3), "product");
  expect_close(trained(4, false), torch::full({1}, 2 - 0.5 * 3 * 0.25), "root");
}

TEST(Ops, CondChoosesBetweenTwoBodies) {
  const Function choose = [](const Tensors& in) {
    const auto kept = in[0] * 2;
    return cond(
        in[1],
        [&](const Tensors& v) {
          return Tensors{v[0].add_(1), kept};
        },
        {kept},
        [](const Tensors& v) {
          return Tensors{v[0] - v[1], v[1]};
        },
        {in[0], in[0]});
  };
  for (const bool flag : {true, false}) {
    const Tensors inputs = {kA, torch::tensor({flag})};
    expect_like_torch(choose, inputs);
    expect_close(choose(inputs)[0], flag ? kA * 2 + 1 : kA * 0, "host");
  }
  const Body same = [](const Tensors& v) { return v; };
  EXPECT_EQ(error_of([&] { cond(kA, same, {kA}, same, {kA}); }),
            "[cond] the condition must be a bool tensor of one element.");
  const auto wrong = [&](torch::Tensor x) { return cond(x.sum() > 0, same, {x}, same, {x[0]})[0]; };
  EXPECT_NE(error_of([&] { captured(wrong, kA); }).find("both must return tensors of the same shapes"),
            std::string::npos);
}

// -- overlapped transfers ---------------------------------------------------------------------------------------------

TEST(Ops, OverlapIsCheckedAgainstTheOptions) {
  const auto forward = [](const Tensors& in) {
    return Tensors{setOverlapForInput(in[0], OverlapMode::OverlapDeviceIterationLoop) + 1};
  };
  const auto error = [&](const Options& options) {
    return error_of([&] { inferenceModel(std::make_shared<Doubles>(), forward, options)(kA); });
  };
  EXPECT_EQ(error(Options()),
            "[setOverlapForInput] transfers cannot overlap with a pipeline; use poptorch::ShardedExecution or a phased "
            "strategy, also for a model on one IPU.");
  EXPECT_NE(error(Options().setExecutionStrategy(ShardedExecution())).find("needs IO tiles"), std::string::npos);
  EXPECT_TRUE(setOverlapForOutput(kA, OverlapMode::OverlapDeviceIterationLoop).is_same(kA));
}

}  // namespace
}  // namespace poptorch
