// poptorch::optim: each kind beside torch's own C++ optimiser, what setOptimizer lets change, groups, precision.
#include <gtest/gtest.h>

#include <cmath>

#include "error_of.h"
#include "small_net.h"

namespace {

namespace optim = poptorch::optim;
using namespace poptorch::tests;  // NOLINT: what these tests share

// `step` updates the parameters of the plain net, whose gradients are set.
void expect_trains_like(const std::function<optim::Optimizer(Net&)>& make_optimizer,
                        const std::function<std::function<void()>(Net&)>& make_step) {
  auto net = make_net(), plain = make_net();
  {
    auto executor = poptorch::trainingModel(net, poptorch::Options(), make_optimizer(*net));
    train(executor, batches());
  }
  const std::function<void()> step = make_step(*plain);
  for (const Batch& batch : batches()) {
    plain->zero_grad();
    std::get<1>(plain->forward(batch.x, batch.target)).backward();
    step();
  }
  const auto wanted = weights(*plain);
  for (const auto& [name, value] : weights(*net)) {
    EXPECT_TRUE(torch::allclose(value, wanted.at(name), 1e-4, 1e-6)) << name << "\n" << value << wanted.at(name);
    EXPECT_FALSE(torch::equal(value, weights(*make_net()).at(name))) << name << " was not trained";
  }
}

template <class TorchOptimizer, class TorchOptions>
auto torch_steps(const TorchOptions& options) {
  return [options](Net& net) {
    auto optimizer = std::make_shared<TorchOptimizer>(net.parameters(), options);
    return [optimizer] { optimizer->step(); };
  };
}

// -- beside torch ---------------------------------------------------------------------------------------------------
TEST(Optimizer, SgdTrainsLikeTorch) {
  using torch::optim::SGDOptions;
  expect_trains_like([](Net& net) { return optim::SGD(net.parameters(), {.lr = 0.1}); },
                     torch_steps<torch::optim::SGD>(SGDOptions(0.1)));
  expect_trains_like(
      [](Net& net) {
        return optim::SGD(net.parameters(),
                          {.lr = 0.05, .momentum = 0.9, .dampening = 0.2, .weight_decay = 0.1, .loss_scaling = 64});
      },
      torch_steps<torch::optim::SGD>(SGDOptions(0.05).momentum(0.9).dampening(0.2).weight_decay(0.1)));
  expect_trains_like(
      [](Net& net) { return optim::SGD(net.parameters(), {.lr = 0.05, .momentum = 0.9, .nesterov = true}); },
      torch_steps<torch::optim::SGD>(SGDOptions(0.05).momentum(0.9).nesterov(true)));
  expect_trains_like(
      [](Net& net) {
        return optim::SGD(net.parameters(),
                          {.lr = 0.05, .momentum = 0.9, .velocity_scaling = 4, .use_combined_accum = true});
      },
      torch_steps<torch::optim::SGD>(SGDOptions(0.05).momentum(0.9)));
}

TEST(Optimizer, AdamTrainsLikeTorch) {
  expect_trains_like(
      [](Net& net) {
        return optim::Adam(net.parameters(), {.lr = 0.02, .betas = {{0.8, 0.99}}, .eps = 1e-6, .weight_decay = 0.1});
      },
      torch_steps<torch::optim::Adam>(torch::optim::AdamOptions(0.02).betas({0.8, 0.99}).eps(1e-6).weight_decay(0.1)));
}

TEST(Optimizer, AdamWTrainsLikeTorch) {
  expect_trains_like([](Net& net) { return optim::AdamW(net.parameters(), {.lr = 0.02, .loss_scaling = 16}); },
                     torch_steps<torch::optim::AdamW>(torch::optim::AdamWOptions(0.02)));  // decays by 0.01
  expect_trains_like([](Net& net) { return optim::AdamW(net.parameters(), {.weight_decay = 0.5}); },
                     torch_steps<torch::optim::AdamW>(torch::optim::AdamWOptions(1e-3).weight_decay(0.5)));
}

TEST(Optimizer, AdamWWithoutBiasCorrectionDoesNotCorrect) {
  expect_trains_like(
      [](Net& net) { return optim::AdamW(net.parameters(), {.lr = 0.02, .bias_correction = false}); },
      [](Net& net) {
        auto moments = std::make_shared<std::map<std::string, std::pair<torch::Tensor, torch::Tensor>>>();
        return [&net, moments] {
          const torch::NoGradGuard no_grad;
          for (auto& entry : net.named_parameters()) {
            torch::Tensor weight = entry.value();
            const torch::Tensor& gradient = weight.grad();
            auto& [m, v] =
                moments->try_emplace(entry.key(), torch::zeros_like(weight), torch::zeros_like(weight)).first->second;
            m = 0.9 * m + 0.1 * gradient;
            v = 0.999 * v + 0.001 * gradient * gradient;
            weight.sub_(0.02 * (m / (v.sqrt() + 1e-8) + 0.01 * weight));
          }
        };
      });
}

TEST(Optimizer, RmspropTrainsLikeTorch) {
  using torch::optim::RMSpropOptions;
  expect_trains_like([](Net& net) { return optim::RMSprop(net.parameters()); },
                     torch_steps<torch::optim::RMSprop>(RMSpropOptions()));
  expect_trains_like(
      [](Net& net) {
        return optim::RMSprop(net.parameters(),
                              {.lr = 0.01, .alpha = 0.9, .weight_decay = 0.1, .momentum = 0.5, .centered = true});
      },
      torch_steps<torch::optim::RMSprop>(
          RMSpropOptions(0.01).alpha(0.9).weight_decay(0.1).momentum(0.5).centered(true)));
}

TEST(Optimizer, RmspropOfTensorFlowFollowsItsFormulas) {
  expect_trains_like(
      [](Net& net) { return optim::RMSprop(net.parameters(), {.lr = 0.01, .momentum = 0.9, .use_tf_variant = true}); },
      [](Net& net) {
        auto state = std::make_shared<std::map<std::string, std::pair<torch::Tensor, torch::Tensor>>>();
        return [&net, state] {
          const torch::NoGradGuard no_grad;
          for (auto& entry : net.named_parameters()) {
            torch::Tensor weight = entry.value();
            const torch::Tensor& gradient = weight.grad();
            auto& [square, buffer] =
                state->try_emplace(entry.key(), torch::ones_like(weight), torch::zeros_like(weight)).first->second;
            square = 0.99 * square + 0.01 * gradient * gradient;
            buffer = 0.9 * buffer + 0.01 * gradient / (square + 1e-8).sqrt();
            weight.sub_(buffer);
          }
        };
      });
}

TEST(Optimizer, LambFollowsItsFormulas) {
  for (const double max_norm : {65500.0, 0.5}) {
    expect_trains_like(
        [&](Net& net) {
          return optim::LAMB(net.parameters(), {.lr = 0.02, .weight_decay = 0.1, .max_weight_norm = max_norm});
        },
        [&](Net& net) {
          auto moments = std::make_shared<std::map<std::string, std::pair<torch::Tensor, torch::Tensor>>>();
          return [&net, moments, max_norm, step = 0]() mutable {
            const torch::NoGradGuard no_grad;
            ++step;
            for (auto& entry : net.named_parameters()) {
              torch::Tensor weight = entry.value();
              const torch::Tensor& gradient = weight.grad();
              auto& [m, v] =
                  moments->try_emplace(entry.key(), torch::zeros_like(weight), torch::zeros_like(weight)).first->second;
              m = 0.9 * m + 0.1 * gradient;
              v = 0.999 * v + 0.001 * gradient * gradient;
              const auto update =
                  (m / (1 - std::pow(0.9, step))) / ((v / (1 - std::pow(0.999, step))).sqrt() + 1e-8) + 0.1 * weight;
              const double norm = std::min(weight.norm().item<double>(), max_norm);
              weight.sub_(0.02 * norm / update.norm().item<double>() * update);
            }
          };
        });
  }
}

TEST(Optimizer, GradientsAreClippedTogether) {
  expect_trains_like([](Net& net) { return optim::SGD(net.parameters(), {.lr = 0.5, .max_grad_norm = 0.1}); },
                     [](Net& net) {
                       auto optimizer = std::make_shared<torch::optim::SGD>(net.parameters(), 0.5);
                       return [&net, optimizer] {
                         torch::nn::utils::clip_grad_norm_(net.parameters(), 0.1);
                         optimizer->step();
                       };
                     });
}

TEST(Optimizer, GroupsTakeWhatTheyDoNotSayFromTheOptimizer) {
  expect_trains_like(
      [](Net& net) {
        optim::AdamW optimizer(net.first->parameters(), {.lr = 0.02, .weight_decay = 0.3});
        optimizer.addGroup(net.second->parameters(), {.lr = 0.005});
        return optimizer;
      },
      [](Net& net) {
        using torch::optim::AdamWOptions;
        std::vector<torch::optim::OptimizerParamGroup> groups;
        groups.emplace_back(net.first->parameters(),
                            std::make_unique<AdamWOptions>(AdamWOptions(0.02).weight_decay(0.3)));
        groups.emplace_back(net.second->parameters(),
                            std::make_unique<AdamWOptions>(AdamWOptions(0.005).weight_decay(0.3)));
        auto optimizer = std::make_shared<torch::optim::AdamW>(groups);
        return [optimizer] { optimizer->step(); };
      });
}

// -- changes --------------------------------------------------------------------------------------------------------
TEST(Optimizer, VariableNumbersChangeAndConstantsDoNot) {
  auto net = make_net();
  optim::SGD optimizer(net->parameters(), {.lr = 0.1, .momentum = 0.9});
  EXPECT_FALSE(optimizer.variableAttributes().isConstant("lr"));
  EXPECT_FALSE(optimizer.variableAttributes().isConstant("momentum"));
  EXPECT_TRUE(optimizer.variableAttributes().isConstant("weight_decay"));
  auto executor = poptorch::trainingModel(net, poptorch::Options(), optimizer);
  train(executor, batches(1));
  optimizer.groups()[0].momentum = 0.5;
  executor.setOptimizer(optimizer);
  optimizer.groups()[0].weight_decay = 0.5;
  EXPECT_EQ(error_of([&] { executor.setOptimizer(optimizer); }),
            "[setOptimizer] weight_decay is constant and changed from 0 to 0.5; call "
            "optimizer.variableAttributes().markAsVariable(\"weight_decay\") before the model is compiled.");
}

TEST(Optimizer, ConstnessMayBeChosenBeforeCompilation) {
  auto net = make_net();
  optim::AdamW optimizer(net->parameters());
  EXPECT_TRUE(optimizer.variableAttributes().isConstant("lr"));
  optimizer.variableAttributes().markAsVariable("lr");
  optimizer.variableAttributes().markAsVariable("betas");
  EXPECT_THROW(optimizer.variableAttributes().markAsConstant("no_such"), poptorch::ArgumentError);
  auto executor = poptorch::trainingModel(net, poptorch::Options(), optimizer);
  train(executor, batches(1));
  optimizer.setLearningRate(0);
  optimizer.groups()[0].betas = {0.5, 0.5};
  executor.setOptimizer(optimizer);
  executor.copyWeightsToHost();
  const auto before = weights(*net);
  train(executor, batches(2));
  executor.copyWeightsToHost();
  for (const auto& [name, value] : weights(*net)) EXPECT_TRUE(torch::equal(value, before.at(name))) << name;
  optimizer.groups()[0].eps = 1;
  EXPECT_NE(error_of([&] { executor.setOptimizer(optimizer); }).find("eps is constant"), std::string::npos);
}

TEST(Optimizer, WhatIsPartOfTheProgramDoesNotChange) {
  auto net = make_net();
  auto executor = poptorch::trainingModel(net, poptorch::Options(), optim::SGD(net->parameters(), {.lr = 0.1}));
  train(executor, batches(1));
  const auto refused = [&](const optim::Optimizer& optimizer) {
    return error_of([&] { executor.setOptimizer(optimizer); });
  };
  EXPECT_NE(refused(optim::SGD(net->parameters(), {.lr = 0.1, .momentum = 0.9}))
                .find("momentum (between zero and not zero) changed from [false] to [true]"),
            std::string::npos);
  EXPECT_NE(refused(optim::SGD(net->first->parameters(), {.lr = 0.1})).find("the parameters of the groups changed"),
            std::string::npos);
  EXPECT_NE(refused(optim::LAMB(net->parameters())).find("the kind of optimiser changed from sgd to lamb"),
            std::string::npos);
  EXPECT_THROW(executor.setOptimizer(optim::SGD(net->parameters(), {.lr = 0.1, .accum_type = torch::kHalf})),
               poptorch::ValueError);
  executor.setOptimizer(optim::SGD(net->parameters(), {.lr = 0.2}));
}

TEST(Optimizer, AnyOptimizerMayTakeThePlaceOfTheFirstBeforeCompilation) {
  auto net = make_net();
  auto executor = poptorch::trainingModel(net, poptorch::Options(), optim::SGD(net->parameters(), {.lr = 0.1}));
  executor.setOptimizer(optim::LAMB(net->parameters(), {.lr = 0.02}));
  train(executor, batches(1));
  EXPECT_NE(executor.graphText().find("lamb"), std::string::npos);
}

TEST(Optimizer, RejectsWhatNoDeviceCanDo) {
  auto net = make_net();
  const auto wrap = [&](const optim::Optimizer& optimizer) {
    poptorch::trainingModel(net, poptorch::Options(), optimizer);
  };
  EXPECT_THROW(wrap(optim::Adam(net->parameters(), {.amsgrad = true})), poptorch::ValueError);
  optim::RMSprop mixed(net->first->parameters());
  mixed.addGroup(net->second->parameters(), {.centered = true});
  EXPECT_THROW(wrap(mixed), poptorch::ArgumentError);
  EXPECT_THROW(optim::SGD(net->parameters(), {.accum_type = torch::kDouble}), poptorch::ArgumentError);
  EXPECT_THROW(optim::SGD(net->parameters(), {.nesterov = true}), poptorch::ValueError);
  EXPECT_THROW(optim::SGD(net->parameters(), {.lr = -1}), poptorch::ValueError);
  EXPECT_THROW(optim::LAMB(net->parameters(), {.betas = {{0.9, 1.0}}}), poptorch::ValueError);
  optim::SGD twice(net->first->parameters());
  EXPECT_THROW(twice.addGroup(net->parameters()), poptorch::ValueError);
  const auto stranger = make_net();
  auto executor = poptorch::trainingModel(net, poptorch::Options(), optim::SGD(stranger->parameters()));
  EXPECT_NE(error_of([&] {
              train(executor, batches(1));
            }).find("none of the parameters of the optimiser belongs to the model"),
            std::string::npos);
}

TEST(Optimizer, WarnsOfWhatHasNoEffect) {
  auto net = make_net();
  testing::internal::CaptureStderr();
  optim::SGD optimizer(net->first->parameters(), {.lr = 0.1, .maximize = true, .velocity_scaling = 2});
  auto executor = poptorch::trainingModel(net, poptorch::Options(), optimizer);
  train(executor, batches(1));
  const std::string log = testing::internal::GetCapturedStderr();
  for (const char* text : {"SGD ignores velocity_scaling", "maximize=true is ignored",
                           "Parameters that are in no group of the optimiser keep their values: second.weight"}) {
    EXPECT_NE(log.find(text), std::string::npos) << text << "\n" << log;
  }
}

// -- precision ------------------------------------------------------------------------------------------------------
TEST(Optimizer, KeepsItsStateInTheTypeItIsGiven) {
  auto net = make_net();
  poptorch::Options options;
  options.Training.gradientAccumulation(2);
  optim::Adam optimizer(net->parameters(),
                        {.accum_type = torch::kHalf, .first_order_momentum_accum_type = torch::kHalf});
  auto executor = poptorch::trainingModel(net, options, optimizer);
  train(executor, batches(1));
  const auto state = *optimizer.stateDict().ipu_state;
  EXPECT_EQ(state.at("Accum___first.weight").scalar_type(), torch::kHalf);
  EXPECT_EQ(state.at("Accl1___first.weight").scalar_type(), torch::kHalf);
  EXPECT_EQ(state.at("Accl2___first.weight").scalar_type(), torch::kFloat);
  const std::string refused =
      error_of([&] { executor.setOptimizer(optim::Adam(net->parameters(), {.accum_type = torch::kHalf})); });
  EXPECT_NE(refused.find("first_order_momentum_accum_type changed from Half to Float, which is fixed at compilation"),
            std::string::npos)
      << refused;
}

// Gradients of a small loss vanish in half, unless the device finds a scale at which they do not.
struct SmallLoss : torch::nn::Module {
  SmallLoss() { register_module("layer", layer); }
  std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, torch::Tensor target) {
    const auto error = (layer(x) - target).square().mean();
    return {error, poptorch::identityLoss(error * kScale, "none")};
  }
  static constexpr double kScale = 0x1p-22;
  torch::nn::Linear layer{4, 2};
};

TEST(Optimizer, AdjustsTheLossScalingByItself) {
  for (const bool automatic : {false, true}) {
    torch::manual_seed(3);
    auto net = std::make_shared<SmallLoss>();
    net->to(torch::kHalf);
    const auto before = net->layer->weight.detach().clone();
    poptorch::Options options;
    options.Training.setAutomaticLossScaling(automatic);
    optim::SGD optimizer(net->parameters(), {.lr = 0.2 / SmallLoss::kScale});
    double first = 0, last = 0;
    {
      auto executor = poptorch::trainingModel(net, options, optimizer);
      const Batch batch = batches(1)[0];
      for (int i = 0; i < 40; ++i) {
        last = std::get<0>(executor(batch.x.to(torch::kHalf), batch.target.to(torch::kHalf))).item<double>();
        if (i == 0) first = last;
      }
      const auto state = *optimizer.stateDict().ipu_state;
      ASSERT_EQ(state.count("lossScaleUpdateFactor"), automatic ? 1 : 0);
      if (automatic) {
        EXPECT_GT(state.at("lossScaleUpdateFactor").item<double>(), 1);
      }
    }
    EXPECT_EQ(torch::equal(net->layer->weight, before), !automatic);
    if (automatic) {
      EXPECT_LT(last, 0.8 * first);
    } else {
      EXPECT_EQ(last, first);
    }
  }
}

struct ToHalf : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) { return x.to(torch::kHalf); }
};

TEST(Precision, RoundsHalfResultsAtRandom) {
  const auto x = torch::full({1 << 16}, 1 + 0x1p-12);  // a quarter of the way to the next half
  poptorch::Options options;
  options.randomSeed(5).Precision.enableStochasticRounding(true);
  auto executor = poptorch::inferenceModel(std::make_shared<ToHalf>(), options);
  const auto y = executor(x).to(torch::kDouble);
  EXPECT_NEAR(y.mean().item<double>(), 1 + 0x1p-12, 3 * 0x1p-10 * std::sqrt(0.25 * 0.75 / (1 << 16)));
  EXPECT_EQ(std::get<0>(torch::_unique(y)).numel(), 2);
}

// 4096 and fifteen times 1, far apart: sums in half lose each 1, because numbers of that size are 4 apart.
TEST(Precision, KeepsPartialSumsInHalfIfAsked) {
  auto x = torch::zeros({1, 4096}, torch::kHalf);
  x.slice(1, 0, 4096, 256).fill_(1);
  x[0][0] = 4096;
  for (const auto& [partials, sum] : {std::pair(torch::kFloat, 4112.0), std::pair(torch::kHalf, 4096.0)}) {
    torch::nn::Linear layer(torch::nn::LinearOptions(4096, 2).bias(false));
    torch::nn::init::ones_(layer->weight);
    layer->to(torch::kHalf);
    poptorch::Options options;
    options.Precision.setPartialsType(partials);
    auto executor = poptorch::inferenceModel(layer.ptr(), options);
    EXPECT_EQ(executor(x)[0][0].item<double>(), sum);
  }
}

}  // namespace
