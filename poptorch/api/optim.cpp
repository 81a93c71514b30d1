#include "poptorch/optim.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "aspen/base/log.h"
#include "poptorch/api/guarded.h"
#include "poptorch/api/spelling.h"
#include "poptorch/model/optimizer_attributes.h"
#include "poptorch/model/optimizer_state.h"

namespace poptorch::optim {
namespace {

// Each of these calls `visit` with the name of an option, the option, and the member it sets.
template <class F>
void each_number(const SGDOptions& o, const F& visit) {
  visit("lr", o.lr, &Numbers::lr);
  visit("momentum", o.momentum, &Numbers::momentum);
  visit("dampening", o.dampening, &Numbers::dampening);
  visit("weight_decay", o.weight_decay, &Numbers::weight_decay);
  visit("nesterov", o.nesterov, &Numbers::nesterov);
  visit("maximize", o.maximize, &Numbers::maximize);
  visit("velocity_scaling", o.velocity_scaling, &Numbers::velocity_scaling);
}

template <class F>
void each_number(const AdamOptions& o, const F& visit) {
  visit("lr", o.lr, &Numbers::lr);
  visit("betas", o.betas, &Numbers::betas);
  visit("eps", o.eps, &Numbers::eps);
  visit("weight_decay", o.weight_decay, &Numbers::weight_decay);
  visit("amsgrad", o.amsgrad, &Numbers::amsgrad);
  visit("maximize", o.maximize, &Numbers::maximize);
}

template <class F>
void each_number(const RMSpropOptions& o, const F& visit) {
  visit("lr", o.lr, &Numbers::lr);
  visit("alpha", o.alpha, &Numbers::alpha);
  visit("eps", o.eps, &Numbers::eps);
  visit("weight_decay", o.weight_decay, &Numbers::weight_decay);
  visit("momentum", o.momentum, &Numbers::momentum);
  visit("centered", o.centered, &Numbers::centered);
  visit("maximize", o.maximize, &Numbers::maximize);
}

template <class F>
void each_number(const LAMBOptions& o, const F& visit) {
  visit("lr", o.lr, &Numbers::lr);
  visit("betas", o.betas, &Numbers::betas);
  visit("eps", o.eps, &Numbers::eps);
  visit("weight_decay", o.weight_decay, &Numbers::weight_decay);
  visit("max_weight_norm", o.max_weight_norm, &Numbers::max_weight_norm);
}

template <class F>
void each_shared(const SGDOptions& o, const F& visit) {
  visit("loss_scaling", o.loss_scaling, &Shared::loss_scaling);
  visit("use_combined_accum", o.use_combined_accum, &Shared::use_combined_accum);
  visit("accum_type", o.accum_type, &Shared::accum_type);
  visit("velocity_accum_type", o.velocity_accum_type, &Shared::velocity_accum_type);
  visit("max_grad_norm", o.max_grad_norm, &Shared::max_grad_norm);
}

template <class Options, class F>
void each_moment_type(const Options& o, const F& visit) {
  visit("accum_type", o.accum_type, &Shared::accum_type);
  visit("first_order_momentum_accum_type", o.first_order_momentum_accum_type, &Shared::first_order_momentum_accum_type);
  visit("second_order_momentum_accum_type", o.second_order_momentum_accum_type,
        &Shared::second_order_momentum_accum_type);
}

template <class F>
void each_shared(const AdamOptions& o, const F& visit) {
  visit("loss_scaling", o.loss_scaling, &Shared::loss_scaling);
  visit("bias_correction", o.bias_correction, &Shared::bias_correction);
  visit("max_grad_norm", o.max_grad_norm, &Shared::max_grad_norm);
  each_moment_type(o, visit);
}

template <class F>
void each_shared(const RMSpropOptions& o, const F& visit) {
  visit("loss_scaling", o.loss_scaling, &Shared::loss_scaling);
  visit("use_tf_variant", o.use_tf_variant, &Shared::use_tf_variant);
  each_moment_type(o, visit);
}

template <class F>
void each_shared(const LAMBOptions& o, const F& visit) {
  visit("loss_scaling", o.loss_scaling, &Shared::loss_scaling);
  visit("bias_correction", o.bias_correction, &Shared::bias_correction);
  each_moment_type(o, visit);
}

std::string text_of(double value) { return fmt::format("{}", value); }
std::string text_of(bool value) { return spelled(value); }
std::string text_of(at::ScalarType value) { return c10::toString(value); }

void check_type(const char* name, at::ScalarType type) { check_accum_type(name, type); }
void check_type(const char*, double) {}
void check_type(const char*, bool) {}

std::optional<Tensors> cloned(const std::optional<Tensors>& tensors) {
  if (!tensors) return std::nullopt;
  Tensors copies;
  for (const auto& [name, tensor] : *tensors) copies.emplace(name, tensor.clone());
  return copies;
}

}  // namespace

// -- constness ------------------------------------------------------------------------------------------------------
VariableAttributes::VariableAttributes(std::set<std::string> variable, std::set<std::string> allowed)
    : variable_(std::move(variable)), allowed_(std::move(allowed)) {}

void VariableAttributes::check(const std::string& attribute) const {
  if (allowed_.contains(attribute)) return;
  throw ArgumentError(
      fmt::format("Unknown optimiser attribute \"{}\"; expected one of {}", attribute, fmt::join(allowed_, ", ")));
}

bool VariableAttributes::isConstant(const std::string& attribute) const {
  check(attribute);
  return !variable_.contains(attribute);
}

void VariableAttributes::markAsConstant(const std::string& attribute) {
  check(attribute);
  variable_.erase(attribute);
}

void VariableAttributes::markAsVariable(const std::string& attribute) {
  check(attribute);
  variable_.insert(attribute);
}

// -- optimisers -----------------------------------------------------------------------------------------------------
Optimizer::Optimizer(Kind kind)
    : kind_(kind), defaults_(default_numbers(kind)), state_(std::make_shared<OptimizerState>()) {}

Optimizer::Optimizer(const Optimizer& other)
    : kind_(other.kind_), defaults_(other.defaults_), groups_(other.groups_), shared_(other.shared_),
      variable_attributes_(other.variable_attributes_), state_(guarded([&] { return other.state_->copied(); })) {}

Optimizer& Optimizer::operator=(const Optimizer& other) {
  if (this != &other) *this = Optimizer(other);
  return *this;
}

Optimizer::~Optimizer() = default;

template <class Options>
void Optimizer::begin(std::vector<at::Tensor> parameters, const Options& options) {
  std::set<std::string> variable, allowed{"loss_scaling"};
  each_number(options, [&](const char* name, const auto& option, auto member) {
    if (option) defaults_.*member = *option;
    if (option) variable.insert(name);
    allowed.insert(name);
  });
  each_shared(options, [&](const char* name, const auto& option, auto member) {
    if (!option) return;
    check_type(name, *option);
    shared_.*member = *option;
  });
  if (options.loss_scaling) variable.insert("loss_scaling");
  if (kind_ == Kind::SGD) variable.insert("lr");
  if (!shared_.use_combined_accum && allowed.erase("velocity_scaling") + variable.erase("velocity_scaling") == 2) {
    aspen::log::warn("SGD ignores velocity_scaling: it only applies with use_combined_accum={}", spelled(true));
  }
  variable_attributes_ = VariableAttributes(std::move(variable), std::move(allowed));
  add(std::move(parameters), options);
}

template <class Options>
void Optimizer::add(std::vector<at::Tensor> parameters, const Options& options) {
  each_shared(options, [&](const char* name, const auto& option, auto member) {
    if (!option || *option == shared_.*member) return;
    throw Error(fmt::format(
        "[addGroup] group {} has {} = {}, but the optimiser has {}; {} is one for all groups: give it to the optimiser "
        "alone.",
        groups_.size(), name, text_of(*option), text_of(shared_.*member), name));
  });
  Group group{defaults_, std::move(parameters)};
  each_number(options, [&](const char*, const auto& option, auto member) {
    if (option) group.*member = *option;
  });
  check_numbers(kind_, group);
  for (const at::Tensor& parameter : group.parameters) {
    if (!parameter.defined()) {
      throw ArgumentError(fmt::format("[addGroup] group {} has an undefined tensor", groups_.size()));
    }
    for (const Group& other : groups_) {
      for (const at::Tensor& known : other.parameters) {
        if (known.is_same(parameter)) throw ValueError("some parameters appear in more than one parameter group");
      }
    }
  }
  groups_.push_back(std::move(group));
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

// -- state ----------------------------------------------------------------------------------------------------------
StateDict Optimizer::stateDict() const {
  const OptimizerState::Contents contents = guarded([&] { return state_->read(); });
  StateDict state{.kind = kind_};
  for (const Group& group : groups_) state.groups.push_back({group, group.parameters.size()});
  state.ipu_state = cloned(contents.ipu_state);
  state.ipu_param = cloned(contents.ipu_param);
  return state;
}

void Optimizer::loadStateDict(const StateDict& state) {
  if (state.groups.empty()) throw Error("[loadStateDict] Cannot load an empty optimiser state.");
  if (attributes_of(state.kind).data() != attributes_of(kind_).data()) {
    throw Error(fmt::format("[loadStateDict] the state is that of an optimiser of kind {}, but this one is of kind {}.",
                            name_of(state.kind), name_of(kind_)));
  }
  const auto sizes = [](const auto& groups, const auto& size) {
    std::vector<std::size_t> found;
    for (const auto& group : groups) found.push_back(size(group));
    return found;
  };
  const auto loaded = sizes(state.groups, [](const StateDict::Group& group) { return group.num_parameters; });
  const auto own = sizes(groups_, [](const Group& group) { return group.parameters.size(); });
  if (loaded != own) {
    throw ValueError(fmt::format(
        "[loadStateDict] the groups of the loaded state have {} parameters, those of the optimiser {}.", loaded, own));
  }
  for (std::size_t i = 0; i < groups_.size(); ++i) static_cast<Numbers&>(groups_[i]) = state.groups[i];
  guarded([&] {
    state_->load(cloned(state.ipu_state), cloned(state.ipu_param), {state.groups.begin(), state.groups.end()});
  });
}

// -- the kinds ------------------------------------------------------------------------------------------------------
SGD::SGD(std::vector<at::Tensor> parameters, const SGDOptions& options) : Optimizer(Kind::SGD) {
  begin(std::move(parameters), options);
}
void SGD::addGroup(std::vector<at::Tensor> parameters, const SGDOptions& options) {
  add(std::move(parameters), options);
}

Adam::Adam(std::vector<at::Tensor> parameters, const AdamOptions& options) : Optimizer(Kind::Adam) {
  begin(std::move(parameters), options);
}
void Adam::addGroup(std::vector<at::Tensor> parameters, const AdamOptions& options) {
  add(std::move(parameters), options);
}

AdamW::AdamW(std::vector<at::Tensor> parameters, const AdamOptions& options) : Optimizer(Kind::AdamW) {
  begin(std::move(parameters), options);
}
void AdamW::addGroup(std::vector<at::Tensor> parameters, const AdamOptions& options) {
  add(std::move(parameters), options);
}

RMSprop::RMSprop(std::vector<at::Tensor> parameters, const RMSpropOptions& options) : Optimizer(Kind::RMSprop) {
  begin(std::move(parameters), options);
}
void RMSprop::addGroup(std::vector<at::Tensor> parameters, const RMSpropOptions& options) {
  add(std::move(parameters), options);
}

LAMB::LAMB(std::vector<at::Tensor> parameters, const LAMBOptions& options) : Optimizer(Kind::LAMB) {
  begin(std::move(parameters), options);
}
void LAMB::addGroup(std::vector<at::Tensor> parameters, const LAMBOptions& options) {
  add(std::move(parameters), options);
}

}  // namespace poptorch::optim
