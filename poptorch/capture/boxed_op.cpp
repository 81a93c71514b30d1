#include "poptorch/capture/boxed_op.h"

#include <algorithm>

#include "aspen/base/error.h"
#include "poptorch/capture/dispatch.h"
#include "poptorch/capture/tensors.h"

namespace poptorch {
namespace {

bool writes(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

std::vector<at::Tensor>::const_iterator find_same(const std::vector<at::Tensor>& tensors, const at::Tensor& wanted) {
  return std::find_if(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) { return tensor.is_same(wanted); });
}

}  // namespace

BoxedOp::BoxedOp(const c10::OperatorHandle& op, const torch::jit::Stack& arguments,
                 const std::function<bool(const at::Tensor&)>& is_input)
    : op_(op) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& formal = op.schema().arguments()[i];
    if (writes(formal) && arguments[i].isTensorList()) {
      throw aspen::UserError("[{}] writes a list of tensors; call the op on each tensor instead.", full_name(op));
    }
    arguments_.push_back(map_tensors(arguments[i], [&](const at::Tensor& tensor) {
      if (!tensor.defined()) {
        slots_.push_back({Slot::kUndefined});
        return tensor;
      }
      // A written argument varies by being written: it needs a fresh copy for every call.
      if (!is_input(tensor) && !writes(formal)) {
        slots_.push_back({Slot::kConstant});
        return tensor.unsafeGetTensorImpl()->is_wrapped_number() ? tensor : tensor.clone();
      }
      auto place = find_same(inputs_, tensor);
      if (place == inputs_.end()) {
        inputs_.push_back(tensor);
        place = std::prev(inputs_.end());
        is_written_.push_back(false);
      }
      const auto index = static_cast<std::size_t>(place - inputs_.begin());
      slots_.push_back({Slot::kInput, index});
      if (writes(formal)) {
        is_written_[index] = true;
        written_.push_back(tensor);
      }
      return at::Tensor();
    }));
  }
}

void BoxedOp::widen_constants() {
  for (c10::IValue& argument : arguments_) {
    argument = map_tensors(argument, [](const at::Tensor& tensor) {
      const bool is_narrow = tensor.defined() && is_narrow_float(tensor.scalar_type());
      return is_narrow ? tensor.to(at::kFloat) : tensor;
    });
  }
}

bool BoxedOp::returns_argument(std::size_t result) const {
  const c10::Argument& formal = op_.schema().returns()[result];
  return formal.alias_info() != nullptr && formal.alias_info()->isWrite();
}

BoxedOp::Results BoxedOp::call(const std::vector<at::Tensor>& inputs, c10::Device device) const {
  std::vector<at::Tensor> given = inputs;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (is_written_[i]) given[i] = given[i].clone();
  }
  Results results;
  std::size_t next = 0;
  for (const c10::IValue& argument : arguments_) {
    results.returned.push_back(map_tensors(argument, [&](const at::Tensor& tensor) {
      const Slot& slot = slots_[next++];
      if (slot.kind == Slot::kInput) return given[slot.input];
      if (slot.kind == Slot::kUndefined || device.is_cpu() || tensor.dim() == 0) return tensor;
      return tensor.to(device);
    }));
    if (argument.isDevice()) results.returned.back() = device;
  }
  op_.callBoxed(&results.returned);
  for (std::size_t i = 0; i < results.returned.size(); ++i) {
    if (returns_argument(i)) continue;
    for_each_tensor(results.returned[i], [&](const at::Tensor& tensor) { results.flat.push_back(tensor); });
  }
  for (const at::Tensor& tensor : written_) {
    const auto place = find_same(inputs_, tensor);
    results.written.push_back(given[static_cast<std::size_t>(place - inputs_.begin())]);
    results.flat.push_back(results.written.back());
  }
  return results;
}

torch::jit::Stack BoxedOp::repack(const Results& example, const std::vector<at::Tensor>& flat) const {
  torch::jit::Stack packed;
  std::size_t next = 0, next_written = 0;
  for (std::size_t i = 0; i < example.returned.size(); ++i) {
    if (returns_argument(i)) {
      packed.emplace_back(written_.at(next_written++));
    } else {
      packed.push_back(map_tensors(example.returned[i], [&](const at::Tensor&) { return flat[next++]; }));
    }
  }
  return packed;
}

}  // namespace poptorch
