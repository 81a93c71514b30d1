// OptimizerState: what an optimiser and the executor that trains with it share, so that the state outlives the executor
// and may be loaded before there is one. The user reads and loads in turn with the calls of the executor.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "poptorch/optim.h"

namespace poptorch {

class DeviceOptimizer;

class OptimizerState {
 public:
  struct Contents {
    // As read or loaded last. None: there has been no device.
    std::optional<optim::Tensors> ipu_state, ipu_param;
    bool has_state_to_upload = false;
    bool has_param_to_upload = false;    // ipu_param was loaded: it overrides the parameter groups
    std::vector<optim::Numbers> groups;  // loaded with it; the same numbers with more digits
  };

  OptimizerState() = default;
  explicit OptimizerState(Contents of) : contents(std::move(of)) {}

  // Up to date with the device, if there is one.
  Contents read();
  // The device gets these before the next call.
  void load(std::optional<optim::Tensors> state, std::optional<optim::Tensors> param,
            std::vector<optim::Numbers> groups);
  // For a copy of the optimiser: it carries the state, but is not connected to the device.
  std::shared_ptr<OptimizerState> copied();

  // For the executor, while it is taken.
  void connect(const std::weak_ptr<DeviceOptimizer>& device);
  Contents contents;

 private:
  // body: gets the one that trains with this; nullptr: nobody does, or it is just going.
  void in_turn(const std::function<void(DeviceOptimizer*)>& body);

  std::mutex mutex_;                       // of device_
  std::weak_ptr<DeviceOptimizer> device_;  // that trains with this
};

}  // namespace poptorch
