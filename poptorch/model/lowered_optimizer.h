// LoweredOptimizer: an optimiser at one moment, for the compiler and the device. Two of them tell whether a compiled
// program can follow a change.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "aspen/compiler/compile.h"
#include "poptorch/optim.h"

namespace poptorch {

// An optimiser as its user's language describes it.
struct OptimizerDescription {
  optim::Kind kind = optim::Kind::SGD;
  std::vector<optim::Group> groups;
  optim::Shared shared;
  std::optional<optim::VariableAttributes> variable_attributes;  // none: an optimiser of torch, whose values decide
  std::shared_ptr<OptimizerState> state;                         // nullptr: an optimiser of torch, which holds none
  bool has_automatic_loss_scaling = false;  // then loss_scaling is what it starts from, and variable
  std::vector<std::string> extras;  // "attribute <name>", "group <i> attribute <name>": without meaning on the device
};

OptimizerDescription described(const optim::Optimizer& optimizer);

// What the compiler is told.
struct OptimizerProgram {
  aspen::OptimizerSpec spec;
  std::vector<std::vector<float>> settings;  // per group, in the order of aspen::Setting
  std::set<std::string> scalars;             // names of its numbers: tensors that only the host knows
};

// Half-precision accumulators would overflow if they were only divided at the end.
bool needs_running_mean(const optim::Shared& shared);

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

class LoweredOptimizer {
 public:
  // ValueError and ArgumentError for what no device can do. parameters: those of the model that may be trained.
  LoweredOptimizer(const OptimizerDescription& optimizer, const NamedTensors& parameters);

  optim::Kind kind() const { return kind_; }
  double loss_scaling() const { return shared_.loss_scaling; }
  void set_loss_scaling(double scaling) { shared_.loss_scaling = scaling; }
  bool needs_running_mean() const { return poptorch::needs_running_mean(shared_); }
  bool is_constant(const std::string& attribute) const { return constant_.at(attribute); }
  // Which attributes are constant is settled when a model is compiled.
  void keep_constants_of(const LoweredOptimizer& compiled) { constant_ = compiled.constant_; }

  OptimizerProgram program() const;
  std::size_t num_groups() const { return groups_.size(); }
  std::vector<float> settings(std::size_t group) const { return settings(groups_[group]); }
  std::vector<float> settings(const optim::Numbers& numbers) const;
  // The attributes of each parameter of the model that is in a group.
  std::map<std::string, optim::Numbers> by_parameter() const;

  // What of `next` the program compiled for this one cannot follow, as a text; empty if nothing. This is the list of
  // what may not change: all that is part of the program, and constants.
  std::string forbidden_change(const LoweredOptimizer& next) const;

  void warn_of_what_is_ignored() const;

 private:
  // Of what is kept between updates.
  struct StateTypes {
    at::ScalarType accumulator = at::kFloat, first_order = at::kFloat, second_order = at::kFloat;
  };
  StateTypes state_types() const;
  bool keeps_velocity(const optim::Numbers& numbers) const;
  std::vector<std::pair<const char*, std::string>> structure() const;

  optim::Kind kind_;
  optim::Shared shared_;
  std::vector<optim::Numbers> groups_;
  std::vector<std::vector<std::string>> parameters_;  // names, per group
  std::map<std::string, bool> constant_;              // by attribute, and loss_scaling
};

}  // namespace poptorch
