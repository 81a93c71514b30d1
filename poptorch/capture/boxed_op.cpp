#include "poptorch/capture/boxed_op.h"

#include <algorithm>

#include "aspen/base/error.h"
#include "poptorch/capture/dispatch.h"
#include "poptorch/capture/stored_value.h"
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
        written_inputs_.push_back(index);
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
  for (const std::size_t input : written_inputs_) {
    results.written.push_back(given[input]);
    results.flat.push_back(given[input]);
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

// -- on disk ----------------------------------------------------------------------------------------------------------
namespace {

struct StoredOp {
  std::string name, overload;
  std::vector<StoredValue> arguments;
  std::vector<std::uint64_t> slots;  // per tensor: kind, input
  std::uint64_t num_inputs = 0;
  std::vector<std::uint64_t> written_inputs;
};

template <class Stream>
void visit(Stream& stream, StoredOp& op) {
  stream(op.name, op.overload, op.arguments, op.slots, op.num_inputs, op.written_inputs);
}

c10::OperatorHandle find_op(const StoredOp& stored) {
  const auto found = c10::Dispatcher::singleton().findSchema({stored.name, stored.overload});
  if (found) return *found;
  throw aspen::FileError(
      "it calls the operator {}, which no library that is loaded here brings; load the library first", stored.name);
}

}  // namespace

std::optional<std::vector<std::byte>> BoxedOp::stored() const {
  StoredOp stored{.name = op_.operator_name().name, .overload = op_.operator_name().overload_name};
  for (const c10::IValue& argument : arguments_) {
    std::optional<StoredValue> value = stored_value(argument);
    if (!value) return std::nullopt;
    stored.arguments.push_back(std::move(*value));
  }
  for (const Slot& slot : slots_) {
    stored.slots.push_back(static_cast<std::uint64_t>(slot.kind));
    stored.slots.push_back(slot.input);
  }
  stored.num_inputs = is_written_.size();
  stored.written_inputs.assign(written_inputs_.begin(), written_inputs_.end());
  return bytes_of(stored);
}

BoxedOp BoxedOp::restored(std::span<const std::byte> bytes) {
  auto stored = from_bytes<StoredOp>(bytes);
  BoxedOp boxed(find_op(stored));
  if (boxed.op_.schema().arguments().size() != stored.arguments.size()) {
    throw aspen::FileError("it gives {} arguments to {}, which takes {}", stored.arguments.size(), stored.name,
                           boxed.op_.schema().arguments().size());
  }
  if (stored.num_inputs > bytes.size()) throw aspen::FileError("{} has {} inputs", stored.name, stored.num_inputs);
  boxed.is_written_.resize(stored.num_inputs);
  for (const std::uint64_t input : stored.written_inputs) {
    if (input >= stored.num_inputs) throw aspen::FileError("{} has no input {}", stored.name, input);
    boxed.is_written_[input] = true;
    boxed.written_inputs_.push_back(input);
  }
  for (std::size_t i = 0; i + 1 < stored.slots.size(); i += 2) {
    if (stored.slots[i] > Slot::kInput ||
        (stored.slots[i] == Slot::kInput && stored.slots[i + 1] >= stored.num_inputs)) {
      throw aspen::FileError("{} has no input {}", stored.name, stored.slots[i + 1]);
    }
    boxed.slots_.push_back({static_cast<Slot::Kind>(stored.slots[i]), stored.slots[i + 1]});
  }
  std::size_t tensors = 0;
  for (const StoredValue& argument : stored.arguments) {
    boxed.arguments_.push_back(restored_value(argument));
    map_tensors(boxed.arguments_.back(), [&](const at::Tensor& tensor) {
      ++tensors;
      return tensor;
    });
  }
  if (tensors != boxed.slots_.size()) throw aspen::FileError("the tensors of {} do not add up", stored.name);
  return boxed;
}

}  // namespace poptorch
