// The public C++ API: torch::nn modules wrapped and trained.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/torch.h>

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("conv", conv);
    register_module("norm", norm);
    register_module("fc", fc);
  }
  std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, torch::Tensor labels) {
    x = torch::max_pool2d(torch::relu(norm(conv(x))), 2).flatten(1);
    const auto y = torch::log_softmax(fc(x), 1);
    return {y, torch::nll_loss(y, labels)};
  }
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(1, 4, 3)};
  torch::nn::BatchNorm2d norm{4};
  torch::nn::Linear fc{4 * 3 * 3, 5};
};

std::shared_ptr<NetImpl> make_net() {
  torch::manual_seed(11);
  return std::make_shared<NetImpl>();
}

struct Batch {
  torch::Tensor images = torch::randn({6, 1, 8, 8});
  torch::Tensor labels = torch::randint(0, 5, {6});
};

void expect_same_state(const NetImpl& got, const NetImpl& wanted, double tolerance) {
  const auto parameters = got.named_parameters();
  for (const auto& entry : wanted.named_parameters()) {
    EXPECT_TRUE(torch::allclose(*parameters.find(entry.key()), entry.value(), tolerance, tolerance)) << entry.key();
  }
  const auto buffers = got.named_buffers();
  for (const auto& entry : wanted.named_buffers()) {
    const auto& mine = *buffers.find(entry.key());
    EXPECT_TRUE(torch::allclose(mine.to(torch::kDouble), entry.value().to(torch::kDouble), tolerance, tolerance))
        << entry.key();
  }
}

TEST(Module, TrainsLikeTorch) {
  auto net = make_net(), plain = make_net();
  torch::optim::SGD plain_optimizer(plain->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  poptorch::optim::SGDOptions settings;
  settings.lr = 0.05;
  settings.momentum = 0.9;
  auto model = poptorch::trainingModel(net, poptorch::Options(), poptorch::optim::SGD(net->parameters(), settings));
  for (int step = 0; step < 5; ++step) {
    const Batch batch;
    const auto results = model(batch.images, batch.labels);
    plain_optimizer.zero_grad();
    const auto [y, loss] = plain->forward(batch.images, batch.labels);
    loss.backward();
    plain_optimizer.step();
    EXPECT_NEAR(std::get<1>(results).item<float>(), loss.item<float>(), 1e-4);
    EXPECT_TRUE(torch::allclose(std::get<0>(results), y, 1e-3, 1e-4));
  }
  model.copyWeightsToHost();
  expect_same_state(*net, *plain, 1e-4);
}

TEST(Module, DeviceIterationsAreSeparateSteps) {
  auto one_by_one = make_net(), at_once = make_net();
  Batch first, second;
  auto single =
      poptorch::trainingModel(one_by_one, poptorch::Options(), poptorch::optim::Adam(one_by_one->parameters()));
  single(first.images, first.labels);
  single(second.images, second.labels);
  single.copyWeightsToHost();
  auto both =
      poptorch::trainingModel(at_once, poptorch::Options().deviceIterations(2).outputMode(poptorch::OutputMode::All),
                              poptorch::optim::Adam(at_once->parameters()));
  const auto results = both(torch::cat({first.images, second.images}), torch::cat({first.labels, second.labels}));
  both.copyWeightsToHost();
  EXPECT_EQ(std::get<0>(results).sizes(), (std::vector<std::int64_t>{12, 5}));
  EXPECT_EQ(std::get<1>(results).sizes(), (std::vector<std::int64_t>{2}));
  expect_same_state(*at_once, *one_by_one, 1e-6);
}

TEST(Module, LearningRateZeroKeepsTheWeights) {
  auto net = make_net(), before = make_net();
  poptorch::optim::SGD optimizer(net->parameters());
  auto model = poptorch::trainingModel(net, poptorch::Options(), optimizer);
  optimizer.setLearningRate(0);
  model.setOptimizer(optimizer);
  const Batch batch;
  model(batch.images, batch.labels);
  model.copyWeightsToHost();
  for (const auto& entry : before->named_parameters()) {
    EXPECT_TRUE(torch::equal(*net->named_parameters().find(entry.key()), entry.value())) << entry.key();
  }
}

TEST(Module, LossIsScaledAndGradientsAreScaledBack) {
  const Batch batch;
  const auto train = [&](double scaling) {
    auto net = make_net();
    auto model = poptorch::trainingModel(net, poptorch::Options(),
                                         poptorch::optim::SGD(net->parameters(), {.lr = 0.1, .loss_scaling = scaling}));
    model(batch.images, batch.labels);
    model.copyWeightsToHost();
    return net->fc->weight.detach().clone();
  };
  EXPECT_TRUE(torch::equal(train(1024), train(1)));
  EXPECT_FALSE(torch::equal(train(1e-42), train(1)));  // gradients leave the range of float
}

TEST(Module, LossScalingStaysOneUnlessTheModelWasCompiledWithAnother) {
  auto net = make_net();
  poptorch::optim::SGD optimizer(net->parameters());
  auto model = poptorch::trainingModel(net, poptorch::Options(), optimizer);
  const Batch batch;
  model.compile(batch.images, batch.labels);
  optimizer.setLossScaling(8);
  EXPECT_THROW(model.setOptimizer(optimizer), poptorch::Error);
}

TEST(Module, DetachedTrainingContinues) {
  auto net = make_net(), other = make_net();
  const Batch first, second;
  poptorch::optim::SGDOptions settings;
  settings.momentum = 0.9;
  auto detached = poptorch::trainingModel(net, {}, poptorch::optim::SGD(net->parameters(), settings));
  auto attached = poptorch::trainingModel(other, {}, poptorch::optim::SGD(other->parameters(), settings));
  detached(first.images, first.labels);
  detached.detachFromDevice();
  EXPECT_FALSE(detached.isAttachedToDevice());
  detached(second.images, second.labels);
  attached(first.images, first.labels);
  attached(second.images, second.labels);
  detached.copyWeightsToHost();
  attached.copyWeightsToHost();
  expect_same_state(*net, *other, 0);
}

TEST(Module, InferenceUsesTheModulesWeights) {
  auto net = make_net();
  net->eval();
  const Batch batch;
  const auto forward = [net](const std::vector<torch::Tensor>& in) -> std::vector<torch::Tensor> {
    return {std::get<0>(net->forward(in[0], in[1]))};
  };
  auto model = poptorch::inferenceModel(net, forward);
  torch::NoGradGuard no_grad;
  const auto wanted = std::get<0>(net->forward(batch.images, batch.labels));
  EXPECT_TRUE(torch::allclose(model(batch.images, batch.labels)[0], wanted, 1e-4, 1e-5));
}

TEST(Module, AttentionIsCaptured) {
  torch::manual_seed(2);
  auto layer = std::make_shared<torch::nn::TransformerEncoderLayerImpl>(
      torch::nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0));
  const auto forward = [layer](const std::vector<torch::Tensor>& in) -> std::vector<torch::Tensor> {
    return {layer->forward(in[0])};
  };
  auto model = poptorch::inferenceModel(layer, forward);
  const auto x = torch::randn({3, 2, 8});
  torch::NoGradGuard no_grad;
  EXPECT_TRUE(torch::allclose(model(x)[0], layer->forward(x), 1e-4, 1e-5));
}

TEST(Module, ScopesNameTheOps) {
  auto net = make_net();
  const auto forward = [net](const std::vector<torch::Tensor>& in) -> std::vector<torch::Tensor> {
    EXPECT_TRUE(poptorch::isRunningOnIpu());
    const poptorch::Block block(0);
    const poptorch::NameScope scope("stem");
    return {net->conv(in[0])};
  };
  auto model = poptorch::inferenceModel(net, forward);
  model(Batch().images);
  EXPECT_FALSE(poptorch::isRunningOnIpu());
  EXPECT_NE(model.graphText().find("scope \"stem\""), std::string::npos) << model.graphText();
}

TEST(Module, MissingLossIsAnError) {
  auto net = make_net();
  const auto forward = [net](const std::vector<torch::Tensor>& in) -> std::vector<torch::Tensor> {
    return {net->conv(in[0])};
  };
  auto model = poptorch::trainingModel(net, forward, poptorch::Options(), poptorch::optim::SGD(net->parameters()));
  EXPECT_THROW(model(Batch().images), poptorch::Error);
}

TEST(Module, IdentityLossTrains) {
  auto net = make_net();
  const auto before = net->conv->weight.detach().clone();
  const auto forward = [net](const std::vector<torch::Tensor>& in) -> std::vector<torch::Tensor> {
    return {poptorch::identityLoss(net->conv(in[0]), poptorch::LossReduction::Mean)};
  };
  auto model = poptorch::trainingModel(net, forward, poptorch::Options(), poptorch::optim::AdamW(net->parameters()));
  model(Batch().images);
  model.copyWeightsToHost();
  EXPECT_FALSE(torch::equal(before, net->conv->weight));
}

}  // namespace
