// Parameters of which groups of replicas have values of their own.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "error_of.h"

namespace {

// Each step takes the inputs of a group's replicas from its value of `own`, and those of all from `shared`.
struct Grouped : torch::nn::Module {
  explicit Grouped(std::int64_t values) : own(register_parameter("own", torch::zeros({values, 2}))) {}
  torch::Tensor forward(torch::Tensor x) {
    EXPECT_EQ(own.dim(), 1);
    return poptorch::identityLoss((own * x).sum() + (shared * x).sum(), poptorch::LossReduction::Sum);
  }
  torch::Tensor own;
  torch::Tensor shared = register_parameter("shared", torch::zeros({2}));
};

auto trainer_of(const std::shared_ptr<Grouped>& module, std::int64_t replicas) {
  auto options = poptorch::Options().replicationFactor(replicas);
  options.Training.accumulationAndReplicationReductionType(poptorch::ReductionType::Sum);
  return poptorch::trainingModel(module, options, poptorch::optim::SGD(module->parameters(), {.lr = 1}));
}

using poptorch::tests::error_of;

TEST(ReplicaGrouping, EachReplicaHasItsOwn) {
  auto module = std::make_shared<Grouped>(2);
  auto trainer = trainer_of(module, 2);
  trainer.replicaGrouping("own", poptorch::CommGroupType::NoGrouping, 1);
  const auto x = torch::tensor({{1.f, 2.f}, {3.f, 6.f}});
  trainer(x);
  trainer(x);
  trainer.copyWeightsToHost();
  EXPECT_TRUE(torch::equal(module->own.detach(), -2 * x)) << module->own;
  EXPECT_TRUE(torch::equal(module->shared.detach(), torch::tensor({-8.f, -16.f}))) << module->shared;
}

TEST(ReplicaGrouping, GroupsShareTheirs) {
  auto module = std::make_shared<Grouped>(2);
  auto trainer = trainer_of(module, 4);
  trainer.replicaGrouping("own", poptorch::CommGroupType::Consecutive, 2);
  const auto x = torch::tensor({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}, {7.f, 8.f}});
  trainer(x);
  trainer.detachFromDevice();
  EXPECT_TRUE(torch::equal(module->own.detach(), torch::tensor({{-4.f, -6.f}, {-12.f, -14.f}}))) << module->own;
}

TEST(ReplicaGrouping, Errors) {
  auto module = std::make_shared<Grouped>(3);
  auto trainer = trainer_of(module, 2);
  EXPECT_EQ(error_of([&] { trainer.replicaGrouping("other", poptorch::CommGroupType::NoGrouping, 1); }),
            "[replicaGrouping] the module has no parameter \"other\".");
  trainer.replicaGrouping("own", poptorch::CommGroupType::NoGrouping, 1);
  EXPECT_NE(error_of([&] { trainer(torch::ones({2, 2})); }).find("its first dimension must be 2"), std::string::npos);
  EXPECT_EQ(module->own.dim(), 2);
  auto fine = trainer_of(std::make_shared<Grouped>(2), 2);
  fine.replicaGrouping("own", poptorch::CommGroupType::NoGrouping, 1);
  fine(torch::ones({2, 2}));
  EXPECT_NE(error_of([&] { fine.replicaGrouping("own", poptorch::CommGroupType::All, 1); }).find("compiled already"),
            std::string::npos);
}

}  // namespace
