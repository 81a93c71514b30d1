#include "poptorch/model/lowered_optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_map>

#include "aspen/base/log.h"
#include "aspen/ops/optimizer/optimizer.h"
#include "poptorch/api/spelling.h"
#include "poptorch/capture/host_data.h"
#include "poptorch/error.h"
#include "poptorch/model/optimizer_attributes.h"

namespace poptorch {
namespace {

using optim::Kind, optim::Numbers;

using NameOfTensor = std::unordered_map<const c10::TensorImpl*, std::string>;

NameOfTensor names_of(const NamedTensors& parameters) {
  NameOfTensor names;
  for (const auto& [name, parameter] : parameters) names.emplace(parameter.unsafeGetTensorImpl(), name);
  return names;
}

// The value of each group.
template <class F>
std::string per_group(const std::vector<Numbers>& groups, const F& value) {
  std::vector<std::string> texts;
  for (const Numbers& numbers : groups) texts.push_back(spelled(value(numbers)));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace

OptimizerDescription described(const optim::Optimizer& optimizer) {
  return {optimizer.kind(), optimizer.groups(), optimizer.shared(), optimizer.variableAttributes(),
          optimizer.deviceState()};
}

bool needs_running_mean(const optim::Shared& shared) {
  return !shared.use_combined_accum && shared.accum_type == at::kHalf;
}

LoweredOptimizer::LoweredOptimizer(const OptimizerDescription& optimizer, const NamedTensors& parameters)
    : kind_(optimizer.kind), shared_(optimizer.shared) {
  const auto& variable = optimizer.variable_attributes;
  const NameOfTensor name_of_tensor = names_of(parameters);
  constant_["loss_scaling"] = !optimizer.has_automatic_loss_scaling &&
                              (variable ? !variable->variable().contains("loss_scaling") : shared_.loss_scaling == 1);
  for (const optim::Group& group : optimizer.groups) {
    if (group.amsgrad) {
      throw ValueError(fmt::format("amsgrad={} is not supported; use Adam or AdamW without it", spelled(true)));
    }
    groups_.push_back(group);
    std::vector<std::string>& names = parameters_.emplace_back();
    for (const at::Tensor& parameter : group.parameters) {
      const auto known = name_of_tensor.find(parameter.unsafeGetTensorImpl());
      if (known != name_of_tensor.end()) names.push_back(known->second);
    }
    for (const Attribute& attribute : attributes_of(kind_)) {
      const bool constant =
          variable ? !variable->variable().contains(attribute.name) : is_constant_by_value(kind_, attribute, group);
      const auto [entry, is_new] = constant_.emplace(attribute.name, constant);
      if (!is_new) entry->second = entry->second && constant;
    }
    if (group.centered != groups_.front().centered) {
      throw ArgumentError("centered must be the same in all parameter groups of RMSprop");
    }
  }
  if (groups_.empty()) throw ArgumentError("The optimiser has no parameter groups; give it parameters of the model");
}

// -- what the compiler needs ----------------------------------------------------------------------------------------
bool LoweredOptimizer::keeps_velocity(const Numbers& numbers) const {
  if (kind_ != Kind::SGD && kind_ != Kind::RMSprop) return false;
  return numbers.momentum != 0 || !constant_.at("momentum");
}

std::vector<float> LoweredOptimizer::settings(const Numbers& numbers) const {
  const bool is_sgd = kind_ == Kind::SGD, is_rmsprop = kind_ == Kind::RMSprop;
  auto [first, second] = numbers.betas;
  if (is_sgd || is_rmsprop) {
    first = numbers.momentum;
    second = is_sgd ? numbers.dampening : numbers.alpha;
  }
  if (is_sgd && first == 0) second = 0;  // without momentum torch ignores dampening
  std::vector<float> settings(aspen::kNumSettings, 0);
  settings[aspen::kLearningRate] = static_cast<float>(numbers.lr);
  settings[aspen::kWeightDecay] = static_cast<float>(numbers.weight_decay);
  settings[aspen::kMomentum] = static_cast<float>(first);
  settings[aspen::kDampening] = static_cast<float>(second);
  settings[aspen::kEpsilon] = static_cast<float>(numbers.eps);
  settings[aspen::kLossScaling] = static_cast<float>(shared_.loss_scaling);
  settings[aspen::kMaxWeightNorm] = static_cast<float>(numbers.max_weight_norm);
  return settings;
}

// A combined accumulator has no type of its own: it has that of its parameter.
LoweredOptimizer::StateTypes LoweredOptimizer::state_types() const {
  if (kind_ == Kind::SGD && shared_.use_combined_accum) return {};
  if (kind_ == Kind::SGD) return {shared_.accum_type, shared_.velocity_accum_type};
  return {shared_.accum_type, shared_.first_order_momentum_accum_type, shared_.second_order_momentum_accum_type};
}

OptimizerProgram LoweredOptimizer::program() const {
  OptimizerProgram program;
  aspen::OptimizerSpec& spec = program.spec;
  spec.kind = name_of(kind_);
  spec.bias_correction = shared_.bias_correction;
  spec.centered = kind_ == Kind::RMSprop && groups_.front().centered;
  spec.tf_variant = shared_.use_tf_variant;
  spec.max_grad_norm = shared_.max_grad_norm;
  const StateTypes types = state_types();
  spec.accumulator_type = graph_dtype(types.accumulator);
  spec.first_order_type = graph_dtype(types.first_order);
  spec.second_order_type = graph_dtype(types.second_order);
  spec.keeps_parameter_types = kind_ == Kind::SGD && shared_.use_combined_accum;
  spec.scales_loss = shared_.loss_scaling != 1 || !constant_.at("loss_scaling");
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    spec.groups.push_back({parameters_[i], keeps_velocity(groups_[i]), kind_ == Kind::SGD && groups_[i].nesterov});
    program.settings.push_back(settings(i));
  }
  return program;
}

std::map<std::string, Numbers> LoweredOptimizer::by_parameter() const {
  std::map<std::string, Numbers> found;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    for (const std::string& name : parameters_[i]) found.emplace(name, groups_[i]);
  }
  return found;
}

// -- changes --------------------------------------------------------------------------------------------------------
// What is part of the program, as texts to compare and to show.
std::vector<std::pair<const char*, std::string>> LoweredOptimizer::structure() const {
  const StateTypes types = state_types();
  return {
      {"the kind of optimiser", name_of(kind_)},
      {"the parameters of the groups", fmt::format("{}", parameters_)},
      {"bias_correction", spelled(shared_.bias_correction)},
      {"centered", spelled(groups_.front().centered)},
      {"use_tf_variant", spelled(shared_.use_tf_variant)},
      {"max_grad_norm", fmt::format("{}", shared_.max_grad_norm)},
      {"use_combined_accum", spelled(kind_ == Kind::SGD && shared_.use_combined_accum)},
      {"accum_type", c10::toString(types.accumulator)},
      {kind_ == Kind::SGD ? "velocity_accum_type" : "first_order_momentum_accum_type",
       c10::toString(types.first_order)},
      {"second_order_momentum_accum_type", c10::toString(types.second_order)},
      {"nesterov", per_group(groups_, [](const Numbers& numbers) { return numbers.nesterov; })},
      {"momentum (between zero and not zero)",
       per_group(groups_, [&](const Numbers& numbers) { return keeps_velocity(numbers); })},
  };
}

std::string LoweredOptimizer::forbidden_change(const LoweredOptimizer& next) const {
  const auto before = structure(), after = next.structure();
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].second == after[i].second) continue;
    return fmt::format("{} changed from {} to {}, which is fixed at compilation", before[i].first, before[i].second,
                       after[i].second);
  }
  const auto refused = [&](const char* name, const std::string& was, const std::string& is) {
    return fmt::format(
        "{} is constant and changed from {} to {}; call {}.markAsVariable(\"{}\") before the model is compiled", name,
        was, is, spelled("optimizer.variableAttributes()", "optimizer.variable_attrs"), name);
  };
  if (loss_scaling() != next.loss_scaling() && is_constant("loss_scaling")) {
    return refused("loss_scaling", fmt::format("{}", loss_scaling()), fmt::format("{}", next.loss_scaling()));
  }
  for (const Attribute& attribute : attributes_of(kind_)) {
    for (std::size_t i = 0; i < groups_.size() && is_constant(attribute.name); ++i) {
      if (attribute.is_same(groups_[i], next.groups_[i])) continue;
      return refused(attribute.name, attribute.text(groups_[i]), attribute.text(next.groups_[i]));
    }
  }
  return "";
}

void LoweredOptimizer::warn_of_what_is_ignored() const {
  for (const Numbers& numbers : groups_) {
    if (!numbers.maximize) continue;
    aspen::log::warn("maximize={} is ignored: models are trained to minimise their loss; negate the loss instead",
                     spelled(true));
    break;
  }
}

}  // namespace poptorch
