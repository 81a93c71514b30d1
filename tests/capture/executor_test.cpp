// poptorch::Executor: what goes in and comes back, which optimisers it takes, several threads.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include <atomic>
#include <thread>

#include "error_of.h"

namespace {

// Trains `weight` by the sum of x, counts its calls.
struct Sum : torch::nn::Module {
  std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, torch::Tensor y) {
    calls.add_(1);
    return {x + y, poptorch::identityLoss((weight * x).sum(), poptorch::LossReduction::Sum)};
  }
  torch::Tensor weight = register_parameter("weight", torch::zeros({3}));
  torch::Tensor unused = register_parameter("unused", torch::zeros({2}));
  torch::Tensor calls = register_buffer("calls", torch::zeros({}));
};

struct Counter : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    calls.add_(1);
    return x + calls;
  }
  torch::Tensor calls = register_buffer("calls", torch::zeros({}));
};

poptorch::optim::SGD sgd(Sum& model, double lr = 0.5) {
  poptorch::optim::SGDOptions options;
  options.lr = lr;
  return poptorch::optim::SGD(model.parameters(), options);
}

const torch::Tensor kX = torch::ones({2, 3});

using poptorch::tests::error_of;

TEST(Executor, RejectsTooFewAndTooManyInputs) {
  auto model = std::make_shared<Sum>();
  auto executor = poptorch::trainingModel(model, poptorch::Options(), sgd(*model));
  EXPECT_EQ(error_of([&] { executor.run({kX}); }), "[run] forward takes 2 inputs, but 1 were given.");
  EXPECT_EQ(error_of([&] { executor.run({kX, kX, kX}); }), "[run] forward takes 2 inputs, but 3 were given.");
  EXPECT_EQ(error_of([&] { executor.compileFor({kX}); }), "[run] forward takes 2 inputs, but 1 were given.");
  EXPECT_EQ(error_of([&] { executor(kX, torch::Tensor()); }), "[model call] argument \"1\" is an undefined tensor.");
  executor(kX, kX);
  EXPECT_EQ(error_of([&] { executor.run({kX}); }), "[run] forward takes 2 inputs, but 1 were given.");
}

TEST(Executor, RejectsTensorsThatCannotBeInputs) {
  const auto call = [](const torch::Tensor& x) {
    auto executor = poptorch::inferenceModel(std::make_shared<Counter>(), poptorch::Options());
    return error_of([&] { executor(x); });
  };
  EXPECT_EQ(call(torch::zeros({0, 3})).rfind("[model call] argument \"0\" of shape [0, 3] has no elements; ", 0), 0);
  EXPECT_EQ(call(torch::zeros({2}, torch::kComplexFloat))
                .rfind("[model call] argument \"0\" has type torch::kComplexFloat; supported are float32, ", 0),
            0);
  EXPECT_EQ(
      call(torch::eye(2).to_sparse())
          .rfind("[model call] argument \"0\" is a Sparse tensor on cpu; inputs must be dense tensors on the CPU", 0),
      0);
}

TEST(Executor, RejectsOtherTensorsThanItWasCompiledFor) {
  auto executor = poptorch::inferenceModel(std::make_shared<Counter>(), poptorch::Options());
  executor(torch::zeros({4, 3}));
  EXPECT_EQ(error_of([&] {
              executor(torch::zeros({2, 3}));
            }),
            "[model call] argument \"0\" is [2, 3] torch::kFloat32, but the model was compiled for [4, 3] "
            "torch::kFloat32. Shapes and types are fixed by the first call: pad or convert the tensor (for the last "
            "batch of a data set use drop_last = true), or call destroy() or wrap the model again to use others.");
  EXPECT_EQ(error_of([&] {
              executor(torch::zeros({4, 3}, torch::kHalf));
            }).rfind("[model call] argument \"0\" is [4, 3] torch::kFloat16, but", 0),
            0);
  EXPECT_EQ(executor(torch::ones({4, 3})).sum().item<float>(), 36);  // still usable: the second call
}

TEST(Executor, EveryOneWarnsOfInputsThatLoseTheirGradientOrAreCopied) {
  for (int i = 0; i < 2; ++i) {
    auto executor = poptorch::inferenceModel(std::make_shared<Counter>(), poptorch::Options());
    testing::internal::CaptureStderr();
    const torch::Tensor x = torch::zeros({2, 3}, torch::requires_grad()).t();
    for (int repeat = 0; repeat < 2; ++repeat) executor(x);
    const std::string log = testing::internal::GetCapturedStderr();
    for (const char* text : {"Argument \"0\" requires a gradient", "Argument \"0\" is not contiguous"}) {
      EXPECT_NE(log.find(text), std::string::npos) << text << "\n" << log;
      EXPECT_EQ(log.find(text), log.rfind(text)) << "said twice\n" << log;
    }
  }
}

// Changes what it is given.
struct Doubler : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) { return x.mul_(2) + 1; }
};

TEST(Executor, WritesIntoInputsThatAreNotContiguous) {
  auto executor = poptorch::inferenceModel(std::make_shared<Doubler>(), poptorch::Options());
  const torch::Tensor given = torch::arange(6, torch::kFloat).view({2, 3});
  executor(given.t());
  EXPECT_TRUE(torch::equal(given, 2 * torch::arange(6, torch::kFloat).view({2, 3})));
}

TEST(Executor, LeavesTrainedWeightsBehind) {
  auto model = std::make_shared<Sum>();
  {
    auto executor = poptorch::trainingModel(model, poptorch::Options(), sgd(*model));
    executor(kX, kX);
    executor(kX, kX);
  }
  EXPECT_TRUE(torch::equal(model->weight.detach(), torch::full({3}, -2.0)));
  EXPECT_EQ(model->calls.item<float>(), 2);
}

TEST(Executor, LeavesTrainedWeightsBehindWhenAnotherTakesItsPlace) {
  auto model = std::make_shared<Sum>(), other = std::make_shared<Sum>();
  auto executor = poptorch::trainingModel(model, poptorch::Options(), sgd(*model));
  executor(kX, kX);
  executor = poptorch::trainingModel(other, poptorch::Options(), sgd(*other));
  EXPECT_TRUE(torch::equal(model->weight.detach(), torch::full({3}, -1.0)));
}

TEST(Executor, KeepsWhatTheHostHasSetAfterTheLastCopy) {
  auto model = std::make_shared<Sum>();
  {
    auto executor = poptorch::trainingModel(model, poptorch::Options(), sgd(*model));
    executor(kX, kX);
    executor.copyWeightsToHost();
    torch::NoGradGuard no_grad;
    model->weight.fill_(7);
  }
  EXPECT_TRUE(torch::equal(model->weight.detach(), torch::full({3}, 7.0)));
}

TEST(Executor, InferenceContinuesWithItsBuffersAfterDetach) {
  auto model = std::make_shared<Counter>();
  {
    auto executor = poptorch::inferenceModel(model);
    executor(kX);
    executor.detachFromDevice();
    EXPECT_EQ(model->calls.item<float>(), 1);
    EXPECT_TRUE(torch::equal(executor(kX), kX + 2));
  }
  EXPECT_EQ(model->calls.item<float>(), 2);
}

poptorch::optim::Adam adam(Sum& model, const poptorch::optim::AdamOptions& options) {
  return poptorch::optim::Adam(model.parameters(), options);
}

TEST(Executor, RejectsOptimizersThatTheProgramCannotFollow) {
  auto model = std::make_shared<Sum>();
  auto executor = poptorch::trainingModel(model, poptorch::Options(), adam(*model, {}));
  executor(kX, kX);
  poptorch::optim::AdamOptions clipped, plain;
  clipped.max_grad_norm = 0.5;
  plain.bias_correction = false;
  EXPECT_EQ(error_of([&] { executor.setOptimizer(adam(*model, clipped)); }),
            "[setOptimizer] max_grad_norm changed from inf to 0.5, which is fixed at compilation.");
  EXPECT_EQ(error_of([&] { executor.setOptimizer(adam(*model, plain)); }),
            "[setOptimizer] bias_correction changed from true to false, which is fixed at compilation.");
  EXPECT_EQ(error_of([&] { executor.setOptimizer(sgd(*model)); }),
            "[setOptimizer] the kind of optimiser changed from adam to sgd, which is fixed at compilation.");
  auto inference = poptorch::inferenceModel(model);
  EXPECT_NE(error_of([&] { inference.setOptimizer(sgd(*model)); }).find("does not train"), std::string::npos);
}

TEST(Optimizer, RejectsGroupsWithSettingsThatAreOneForAll) {
  auto model = std::make_shared<Sum>();
  poptorch::optim::AdamOptions scaled, clipped, plain;
  scaled.loss_scaling = 8;
  clipped.max_grad_norm = 0.5;
  plain.bias_correction = false;
  const auto expect_rejected = [&](const poptorch::optim::AdamOptions& options, const char* name) {
    poptorch::optim::Adam optimizer({model->weight});
    EXPECT_NE(error_of([&] { optimizer.addGroup({model->unused}, options); }).find(name), std::string::npos) << name;
    EXPECT_EQ(optimizer.groups().size(), 1);
  };
  expect_rejected(scaled, "loss_scaling = 8");
  expect_rejected(clipped, "max_grad_norm = 0.5");
  expect_rejected(plain, "bias_correction = false");
  poptorch::optim::SGDOptions sgd_options;
  sgd_options.loss_scaling = 8;
  poptorch::optim::SGD optimizer({model->weight});
  EXPECT_NE(error_of([&] { optimizer.addGroup({model->unused}, sgd_options); }).find("loss_scaling"),
            std::string::npos);
}

struct TwoWeights : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    return poptorch::identityLoss(((first + second) * x).sum(), poptorch::LossReduction::Sum);
  }
  torch::Tensor first = register_parameter("first", torch::zeros({3}));
  torch::Tensor second = register_parameter("second", torch::zeros({3}));
};

TEST(Optimizer, GroupsHaveNumbersOfTheirOwn) {
  auto model = std::make_shared<TwoWeights>();
  poptorch::optim::SGDOptions slow, fast;
  slow.lr = 0.25;
  fast.lr = 0.5;
  fast.weight_decay = 0.5;
  poptorch::optim::SGD optimizer({model->first}, slow);
  optimizer.addGroup({model->second}, fast);
  auto executor = poptorch::trainingModel(model, poptorch::Options(), optimizer);
  executor(kX);
  optimizer.setLearningRate(0, 1.0);
  executor.setOptimizer(optimizer);
  executor(kX);
  executor.copyWeightsToHost();
  EXPECT_TRUE(torch::equal(model->first.detach(), torch::full({3}, -0.5 - 2)));
  EXPECT_TRUE(torch::equal(model->second.detach(), torch::full({3}, -1 - 0.5 * (2 - 0.5))));
}

TEST(Executor, WarnsOfParametersTheLossDoesNotReach) {
  auto model = std::make_shared<Sum>();
  auto executor = poptorch::trainingModel(model, poptorch::Options(), sgd(*model));
  testing::internal::CaptureStderr();
  executor(kX, kX);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("no gradient reaches parameters that are to be trained, which keep their values: unused."),
            std::string::npos)
      << log;
}

TEST(Executor, WarnsOfParametersFrozenAfterwards) {
  auto model = std::make_shared<Sum>();
  auto executor = poptorch::trainingModel(model, poptorch::Options(), sgd(*model));
  executor(kX, kX);
  model->weight.requires_grad_(false);
  testing::internal::CaptureStderr();
  executor(kX, kX);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("does not follow: weight."), std::string::npos);
}

struct Narrow : torch::nn::Module {
  explicit Narrow(torch::ScalarType type) { to(type); }
  std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, torch::Tensor target) {
    const auto y = linear(x) * 4096;
    return {y, torch::l1_loss(y, target)};
  }
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(8, 4));
};

TEST(Executor, TrainsModelsInBFloat16) {
  auto model = std::make_shared<Narrow>(torch::kBFloat16);
  const torch::Tensor before = model->linear->weight.detach().clone();
  poptorch::optim::SGDOptions options;
  options.lr = 1e-6;
  auto executor =
      poptorch::trainingModel(model, poptorch::Options(), poptorch::optim::SGD(model->parameters(), options));
  const auto x = torch::randn({16, 8}).to(torch::kBFloat16), target = torch::zeros({16, 4}, torch::kBFloat16);
  const auto [first, start] = executor(x, target);
  EXPECT_EQ(first.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(torch::allclose(first, torch::linear(x, before, model->linear->bias.detach()) * 4096, 0.02, 64));
  torch::Tensor loss;
  for (int i = 0; i < 20; ++i) loss = std::get<1>(executor(x, target));
  EXPECT_LT(loss.item<float>(), start.item<float>());
  executor.copyWeightsToHost();
  EXPECT_EQ(model->linear->weight.scalar_type(), torch::kBFloat16);
  EXPECT_FALSE(torch::equal(model->linear->weight.detach(), before));
}

TEST(Executor, WarnsOnceOfTheFirstOpThatOverflowsInHalf) {
  auto model = std::make_shared<Narrow>(torch::kHalf);
  poptorch::optim::SGDOptions options;
  options.lr = 1e-6;
  options.loss_scaling = 4096;
  auto executor =
      poptorch::trainingModel(model, poptorch::Options(), poptorch::optim::SGD(model->parameters(), options));
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) executor(torch::ones({16, 8}, torch::kHalf), torch::zeros({16, 4}, torch::kHalf));
  const std::string log = testing::internal::GetCapturedStderr(), text = "is that of op mul in the backward pass";
  EXPECT_NE(log.find(text), std::string::npos) << log;
  EXPECT_EQ(log.find(text), log.rfind(text)) << log;
  EXPECT_NE(log.find("setAutomaticLossScaling"), std::string::npos) << log;
}

TEST(Executor, RejectsIntegersBeyondTheDevices) {
  auto executor = poptorch::inferenceModel(std::make_shared<Counter>());
  const auto error = error_of([&] { executor(torch::tensor({std::int64_t{1} << 40})); });
  EXPECT_NE(error.find("holds 1099511627776"), std::string::npos) << error;
}

TEST(Executor, ThreadsTakeTurns) {
  auto model = std::make_shared<Sum>();
  auto executor = poptorch::trainingModel(model, poptorch::Options(), sgd(*model, 0.25));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const auto mine = torch::full({2, 3}, static_cast<float>(i));
      for (int call = 0; call < 20; ++call) {
        if (!torch::equal(std::get<0>(executor(kX, mine)), kX + mine)) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  executor.copyWeightsToHost();
  EXPECT_EQ(model->calls.item<float>(), 160);
  EXPECT_TRUE(torch::equal(model->weight.detach(), torch::full({3}, -0.5 * 160)));
}

TEST(Executor, ThreadsCaptureInTurns) {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      auto executor = poptorch::inferenceModel(std::make_shared<Counter>());
      if (!torch::equal(executor(kX), kX + 1)) ++wrong;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

struct Asking : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    here = poptorch::isRunningOnIpu();
    std::thread([&] { elsewhere = poptorch::isRunningOnIpu(); }).join();
    return x + 1;
  }
  bool here = false, elsewhere = true;
};

TEST(Executor, OtherThreadsDoNotRunOnTheDeviceDuringACapture) {
  auto model = std::make_shared<Asking>();
  poptorch::inferenceModel(model)(kX);
  EXPECT_TRUE(model->here);
  EXPECT_FALSE(model->elsewhere);
}

}  // namespace
