#include "poptorch/optim.h"

#include <fmt/format.h>

#include "poptorch/error.h"

namespace poptorch::optim {
namespace {

Optimizer::Group sgd_group(std::vector<at::Tensor> parameters, const SGDOptions& options) {
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0)) {
    throw Error(fmt::format("[SGD] Nesterov needs a momentum and no dampening; they are {} and {}.", options.momentum,
                            options.dampening));
  }
  return {.parameters = std::move(parameters),
          .keeps_velocity = options.momentum != 0,
          .nesterov = options.nesterov,
          .lr = options.lr,
          .weight_decay = options.weight_decay,
          .first = options.momentum,
          .second = options.momentum == 0 ? 0 : options.dampening};
}

Optimizer::Group adam_group(std::vector<at::Tensor> parameters, const AdamOptions& options) {
  return {.parameters = std::move(parameters),
          .lr = options.lr,
          .weight_decay = options.weight_decay,
          .first = options.beta1,
          .second = options.beta2,
          .epsilon = options.eps};
}

}  // namespace

Optimizer::Optimizer(std::string kind, double loss_scaling, double max_grad_norm, bool bias_correction)
    : kind_(std::move(kind)), loss_scaling_(loss_scaling), max_grad_norm_(max_grad_norm),
      bias_correction_(bias_correction) {}

void Optimizer::add(Group group) { groups_.push_back(std::move(group)); }

void Optimizer::checkShared(const char* name, double given, double known) const {
  if (given == known) return;
  throw Error(
      fmt::format("[addGroup] group {} has {} = {}, but the optimiser has {}; {} is one for all groups: give it to "
                  "the optimiser, and the same to its groups.",
                  groups_.size(), name, given, known, name));
}

void Optimizer::setLearningRate(double lr) {
  for (Group& group : groups_) group.lr = lr;
}

void Optimizer::setLearningRate(std::size_t group, double lr) {
  if (group >= groups_.size()) {
    throw Error(fmt::format("[setLearningRate] there is no group {}; the optimiser has {}.", group, groups_.size()));
  }
  groups_[group].lr = lr;
}

void Optimizer::setLossScaling(double scaling) { loss_scaling_ = scaling; }

SGD::SGD(std::vector<at::Tensor> parameters, const SGDOptions& options)
    : Optimizer("sgd", options.loss_scaling, std::numeric_limits<double>::infinity(), true) {
  addGroup(std::move(parameters), options);
}

void SGD::addGroup(std::vector<at::Tensor> parameters, const SGDOptions& options) {
  checkShared("loss_scaling", options.loss_scaling, lossScaling());
  add(sgd_group(std::move(parameters), options));
}

Adam::Adam(const std::string& kind, std::vector<at::Tensor> parameters, const AdamOptions& options)
    : Optimizer(kind, options.loss_scaling, options.max_grad_norm, options.bias_correction) {
  addGroup(std::move(parameters), options);
}

Adam::Adam(std::vector<at::Tensor> parameters, const AdamOptions& options)
    : Adam("adam", std::move(parameters), options) {}

void Adam::addGroup(std::vector<at::Tensor> parameters, const AdamOptions& options) {
  checkShared("loss_scaling", options.loss_scaling, lossScaling());
  checkShared("max_grad_norm", options.max_grad_norm, maxGradNorm());
  checkShared("bias_correction", options.bias_correction ? 1 : 0, biasCorrection() ? 1 : 0);
  add(adam_group(std::move(parameters), options));
}

AdamW::AdamW(std::vector<at::Tensor> parameters, const AdamOptions& options)
    : Adam("adamw", std::move(parameters), options) {}

}  // namespace poptorch::optim
