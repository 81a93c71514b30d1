#include "poptorch/model/device_optimizer.h"

#include <fmt/format.h>

#include "aspen/base/log.h"
#include "poptorch/api/spelling.h"
#include "poptorch/error.h"
#include "poptorch/model/summary.h"

namespace poptorch {
namespace {

void warn_of_missing(const std::vector<std::string>& names) {
  if (names.empty()) return;
  aspen::log::warn("The loaded optimiser state has no {}: the device keeps its values", summary(names));
}

}  // namespace

DeviceOptimizer::DeviceOptimizer(HostWeights::Turn turn, bool relaxed, bool automatic_loss_scaling)
    : turn_(std::move(turn)), relaxed_(relaxed), automatic_loss_scaling_(automatic_loss_scaling) {}

bool DeviceOptimizer::in_turn(const std::function<void()>& body) const {
  return turn_([&] {
    body();
    return true;
  });
}

// -- before compilation ---------------------------------------------------------------------------------------------
void DeviceOptimizer::replace(OptimizerDescription optimizer) {
  optimizer.has_automatic_loss_scaling = automatic_loss_scaling_;
  const LoweredOptimizer checked(optimizer, {});
  warn_of_new_extras(optimizer);
  optimizer_ = std::move(optimizer);
  has_optimizer_ = true;
}

// What the first optimiser has is there on purpose.
void DeviceOptimizer::warn_of_new_extras(const OptimizerDescription& optimizer) {
  for (const std::string& extra : optimizer.extras) {
    if (!known_extras_.insert(extra).second || !has_optimizer_) continue;
    const auto text = fmt::format("Ignoring unexpected {}: it has no meaning on the device", extra);
    if (relaxed_) {
      aspen::log::debug("{}", text);
    } else {
      aspen::log::warn("{}", text);
    }
  }
}

// -- compilation ----------------------------------------------------------------------------------------------------
OptimizerProgram DeviceOptimizer::compiled(const std::shared_ptr<Model>& model) {
  model_ = model;
  was_attached_ = false;
  parameters_ = model->trainable_parameters();
  lowered_.emplace(optimizer_, parameters_);
  take_values();
  lowered_->warn_of_what_is_ignored();
  if (!parameters_.empty() && values_.empty()) {
    throw Error(
        "[compile] none of the parameters of the optimiser belongs to the model, so nothing would be trained; create "
        "the optimiser with parameters of the model that is wrapped.");
  }
  std::vector<std::string> missing;
  for (const auto& [name, parameter] : parameters_) {
    if (!values_.contains(name)) missing.push_back(name);
  }
  if (!missing.empty()) {
    aspen::log::warn("Parameters that are in no group of the optimiser keep their values: {}", summary(missing));
  }
  OptimizerProgram program = lowered_->program();
  for (const auto& [name, value] : scalars()) program.scalars.insert(name);
  return program;
}

void DeviceOptimizer::take_values() {
  values_ = lowered_->by_parameter();
  loss_scaling_ = lowered_->loss_scaling();
}

void DeviceOptimizer::attached() {
  was_attached_ = true;
  if (optimizer_.state != nullptr) optimizer_.state->connect(weak_from_this());
  upload_state();
}

void DeviceOptimizer::released() {
  if (optimizer_.state != nullptr) {
    optimizer_.state->connect({});
    OptimizerState::Contents& left = optimizer_.state->contents;
    left.has_state_to_upload = left.ipu_state.has_value();
  }
  model_.reset();
  was_attached_ = false;
  lowered_.reset();
}

// -- running --------------------------------------------------------------------------------------------------------
void DeviceOptimizer::before_run() {
  state_is_stale_ = true;
  upload_state();
}

void DeviceOptimizer::upload_state() {
  const std::shared_ptr<Model> model = model_.lock();
  if (model == nullptr || optimizer_.state == nullptr) return;
  OptimizerState::Contents& loaded = optimizer_.state->contents;
  if (!loaded.has_state_to_upload) return;
  if (loaded.ipu_state) {
    std::vector<std::string> missing;
    for (const std::string& name : model->state_names()) {
      const auto entry = loaded.ipu_state->find(name);
      if (entry == loaded.ipu_state->end()) {
        missing.push_back(name);
      } else {
        model->write_state(name, entry->second);
      }
    }
    warn_of_missing(missing);
    state_is_stale_ = true;
  }
  if (loaded.has_param_to_upload) upload_param(*model, loaded);
  loaded.has_state_to_upload = loaded.has_param_to_upload = false;  // not before: what does not fit is not forgotten
}

// Sends the loaded numbers, each parameter its own.
void DeviceOptimizer::upload_param(Model& model, const OptimizerState::Contents& contents) {
  const optim::Tensors& loaded = *contents.ipu_param;
  std::vector<std::string> missing;
  for (const auto& [key, value] : param_entries(*lowered_, values_, loss_scaling_)) {
    if (!loaded.contains(key)) missing.push_back(key);
  }
  warn_of_missing(missing);
  const auto scaling = loaded.find(kLossScalingEntry);
  if (scaling != loaded.end()) loss_scaling_ = scaling->second.item<double>();
  OptimizerDescription described = optimizer_;
  for (std::size_t i = 0; i < contents.groups.size(); ++i) {
    static_cast<optim::Numbers&>(described.groups.at(i)) = contents.groups[i];
  }
  LoweredOptimizer as_loaded(described, parameters_);
  as_loaded.set_loss_scaling(loss_scaling_);
  values_ = read_param(as_loaded, loaded, values_, loss_scaling_);
  for (const auto& [name, numbers] : values_) model.set_parameter_settings(name, as_loaded.settings(numbers));
}

void DeviceOptimizer::read_state(OptimizerState& state) {
  const std::shared_ptr<Model> model = model_.lock();
  OptimizerState::Contents& contents = state.contents;
  if (model == nullptr || !was_attached_ || optimizer_.state.get() != &state || contents.has_state_to_upload) return;
  if (state_is_stale_ || !contents.ipu_state) {
    optim::Tensors read;
    for (const std::string& name : model->state_names()) read.emplace(name, model->read_state(name));
    contents.ipu_state = std::move(read);
    state_is_stale_ = false;
  }
  contents.ipu_param = param_entries(*lowered_, values_, loss_scaling_);
}

void DeviceOptimizer::save_state() {
  if (optimizer_.state != nullptr) read_state(*optimizer_.state);
}

// -- changes --------------------------------------------------------------------------------------------------------
void DeviceOptimizer::change(OptimizerDescription optimizer) {
  optimizer.has_automatic_loss_scaling = automatic_loss_scaling_;
  LoweredOptimizer next(optimizer, parameters_);
  if (next.needs_running_mean() && !lowered_->needs_running_mean()) {
    throw ValueError(
        fmt::format("The new optimiser has accum_type float16, which needs {}, but the model is compiled already; give "
                    "such an optimiser to trainingModel",
                    spelled("MeanReductionStrategy::Running")));
  }
  warn_of_new_extras(optimizer);
  if (const std::string forbidden = lowered_->forbidden_change(next); !forbidden.empty()) {
    throw Error(fmt::format("[setOptimizer] {}.", forbidden));
  }
  connect(optimizer.state);
  optimizer_ = std::move(optimizer);
  upload_state();  // what was loaded before is replaced by what is set now
  next.keep_constants_of(*lowered_);
  if (next.by_parameter() == values_ && next.loss_scaling() == loss_scaling_) return;
  lowered_ = std::move(next);
  take_values();
  const std::shared_ptr<Model> model = model_.lock();
  if (model == nullptr) return;
  for (std::size_t group = 0; group < lowered_->num_groups(); ++group) {
    model->set_settings(group, lowered_->settings(group));
  }
}

// The optimiser that was used so far keeps the state as it is now; the new one continues with it, or loads its own.
void DeviceOptimizer::connect(const std::shared_ptr<OptimizerState>& state) {
  if (state == optimizer_.state) return;
  save_state();
  if (optimizer_.state != nullptr) optimizer_.state->connect({});
  if (state == nullptr) return;
  state_is_stale_ = true;
  if (was_attached_) state->connect(weak_from_this());
}

}  // namespace poptorch
