// DeviceOptimizer: the optimiser side of an executor that trains, in either language: what is compiled in, what may
// change later, which numbers the device has, where its state is. The executor calls it at the moments its methods
// name.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "poptorch/model/host_weights.h"
#include "poptorch/model/lowered_optimizer.h"
#include "poptorch/model/model.h"
#include "poptorch/model/optimizer_param.h"
#include "poptorch/model/optimizer_state.h"

namespace poptorch {

class DeviceOptimizer : public std::enable_shared_from_this<DeviceOptimizer> {
 public:
  // turn: of the executor, for those who read the state of the optimiser from another thread; everything else is called
  // in it. relaxed: unexpected attributes are worth a line of the debug log only. automatic_loss_scaling: the device
  // adjusts the loss scaling.
  explicit DeviceOptimizer(HostWeights::Turn turn, bool relaxed = false, bool automatic_loss_scaling = false);

  // Takes another optimiser before the model is compiled. Errors for optimisers that no device can run.
  void replace(OptimizerDescription optimizer);
  // MeanReductionStrategy::Running, whatever the options say.
  bool needs_running_mean() const { return poptorch::needs_running_mean(optimizer_.shared); }

  // The model is captured and about to be compiled: what to compile in. Warns of what will have no effect.
  OptimizerProgram compiled(const std::shared_ptr<Model>& model);
  // The device is ready: connects the optimiser's state to it.
  void attached();
  // Its numbers, as the device has them, by the names of their tensors. Of a compiled model.
  optim::Tensors scalars() const { return scalar_entries(*lowered_, values_, loss_scaling_); }
  // Sends what was loaded since the last call.
  void before_run();
  // setOptimizer on a compiled model. Errors for changes that the program cannot follow.
  void change(OptimizerDescription optimizer);
  // Brings the state to the host, for an optimiser that can hold it.
  void save_state();
  // The program is gone; the optimiser keeps the state that was read last.
  void released();

  // False: the executor is going, and nobody else has to do with it; `body` was not called.
  bool in_turn(const std::function<void()>& body) const;
  // Reads again only if a call was made since.
  void read_state(OptimizerState& state);

 private:
  void warn_of_new_extras(const OptimizerDescription& optimizer);
  void connect(const std::shared_ptr<OptimizerState>& state);
  void take_values();
  void upload_state();
  void upload_param(Model& model, const OptimizerState::Contents& contents);

  HostWeights::Turn turn_;
  bool relaxed_, automatic_loss_scaling_;
  OptimizerDescription optimizer_;
  std::set<std::string> known_extras_;  // there from the start, or reported
  bool has_optimizer_ = false;

  NamedTensors parameters_;                  // of the compiled model
  std::optional<LoweredOptimizer> lowered_;  // as it was compiled, or set last; none before compilation
  NumbersOfParameters values_;               // that the device has
  double loss_scaling_ = 1;                  // that the device has
  std::weak_ptr<Model> model_;               // the compiled one
  bool was_attached_ = false;                // so that there is state
  bool state_is_stale_ = false;
};

}  // namespace poptorch
