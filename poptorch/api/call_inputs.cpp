#include "poptorch/api/call_inputs.h"

#include <fmt/format.h>

#include <sstream>

#include "aspen/base/log.h"
#include "poptorch/api/spelling.h"
#include "poptorch/capture/host_data.h"

namespace poptorch {
namespace {

template <class T>
std::string streamed(const T& value) {
  std::ostringstream stream;
  stream << value;
  return stream.str();
}

std::string described(at::IntArrayRef shape, c10::ScalarType type) {
  return fmt::format("[{}] {}", fmt::join(shape, ", "), spelled(type));
}

void check_new(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.defined()) throw Error(fmt::format("[model call] argument \"{}\" is an undefined tensor.", name));
  if (tensor.device().type() == c10::DeviceType::IPU) {
    throw Error(
        fmt::format("[model call] argument \"{}\" belongs to a model that is being captured: a wrapped model cannot be "
                    "called inside the forward of another one. Call the module itself there.",
                    name));
  }
  if (!tensor.device().is_cpu() || tensor.layout() != c10::kStrided) {
    throw Error(fmt::format(
        "[model call] argument \"{}\" is a {} tensor on {}; inputs must be dense tensors on the CPU. Convert "
        "it with .to_dense() or .cpu().",
        name, streamed(tensor.layout()), streamed(tensor.device())));
  }
  if (!is_supported(tensor.scalar_type())) {
    throw Error(fmt::format("[model call] argument \"{}\" has type {}; supported are {}. {}", name,
                            spelled(tensor.scalar_type()), kSupportedTypes,
                            tensor.is_complex()
                                ? "Pass torch.view_as_real of it, and use torch.view_as_complex in forward."
                                : "Convert it before the call."));
  }
  if (tensor.numel() == 0) {
    throw Error(fmt::format(
        "[model call] argument \"{}\" of shape [{}] has no elements; inputs must have at least one element. "
        "Leave the call out for an empty batch, or pad it.",
        name, fmt::join(tensor.sizes(), ", ")));
  }
}

}  // namespace

CallInputs::CallInputs(std::vector<std::string> names, const std::vector<at::Tensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check_new(names[i], tensors[i]);
    inputs_.push_back({std::move(names[i]), tensors[i].sizes().vec(), tensors[i].scalar_type()});
  }
}

void CallInputs::check(const std::vector<at::Tensor>& tensors) {
  if (tensors.size() != inputs_.size()) {
    throw Error(fmt::format("[model call] {} tensors were given, but the model was compiled for {}.", tensors.size(),
                            inputs_.size()));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    const Input& input = inputs_[i];
    if (!tensor.defined()) throw mismatch(i, "undefined");
    if (tensor.scalar_type() != input.type || tensor.sizes() != input.shape || tensor.layout() != c10::kStrided ||
        !tensor.device().is_cpu()) {
      check_new(input.name, tensor);
      throw mismatch(i, described(tensor.sizes(), tensor.scalar_type()));
    }
    if (tensor.requires_grad()) mention(fmt::format("Argument \"{}\" requires a gradient: it is detached", input.name));
    if (!tensor.is_contiguous()) {
      mention(fmt::format("Argument \"{}\" is not contiguous: it is copied at each call", input.name));
    }
  }
}

void CallInputs::mention(const std::string& fact) {
  const std::scoped_lock lock(mutex_);
  if (mentioned_.insert(fact).second) aspen::log::warn("{}", fact);
}

Error CallInputs::mismatch(std::size_t index, const std::string& given) const {
  const Input& input = inputs_.at(index);
  return Error(fmt::format(
      "[model call] argument \"{}\" is {}, but the model was compiled for {}. Shapes and types are fixed by the first "
      "call: pad or convert the tensor (for the last batch of a data set use {}), or call destroy() or wrap the model "
      "again to use others.",
      input.name, given, described(input.shape, input.type), spelled("drop_last = true", "drop_last=True")));
}

}  // namespace poptorch
