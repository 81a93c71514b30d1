#include "poptorch/model/optimizer_state.h"

#include "poptorch/model/device_optimizer.h"

namespace poptorch {

void OptimizerState::in_turn(const std::function<void(DeviceOptimizer*)>& body) {
  std::shared_ptr<DeviceOptimizer> trainer;
  {
    const std::scoped_lock lock(mutex_);
    trainer = device_.lock();
  }
  if (trainer == nullptr || !trainer->in_turn([&] { body(trainer.get()); })) body(nullptr);
}

void OptimizerState::connect(const std::weak_ptr<DeviceOptimizer>& device) {
  const std::scoped_lock lock(mutex_);
  device_ = device;
}

OptimizerState::Contents OptimizerState::read() {
  Contents found;
  in_turn([&](DeviceOptimizer* trainer) {
    if (trainer != nullptr) trainer->read_state(*this);
    found = contents;
  });
  return found;
}

void OptimizerState::load(std::optional<optim::Tensors> state, std::optional<optim::Tensors> param,
                          std::vector<optim::Numbers> groups) {
  in_turn([&](DeviceOptimizer*) {
    contents.ipu_state = std::move(state);
    contents.ipu_param = std::move(param);
    contents.groups = std::move(groups);
    contents.has_state_to_upload = contents.ipu_state || contents.ipu_param;
    contents.has_param_to_upload = contents.ipu_param.has_value();
  });
}

std::shared_ptr<OptimizerState> OptimizerState::copied() {
  auto copy = std::make_shared<OptimizerState>(read());
  copy->contents.has_state_to_upload = copy->contents.ipu_state.has_value();
  return copy;
}

}  // namespace poptorch
