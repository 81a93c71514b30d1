#include "poptorch/capture/stored_work.h"

#include <iterator>

#include "aspen/ops/host_call/host_call.h"
#include "poptorch/capture/custom_op.h"
#include "poptorch/capture/host_call.h"
#include "poptorch/error.h"

namespace poptorch {
namespace {

enum class Kind : std::uint8_t { kForward, kBackward, kCustomOp };

struct StoredFunction {
  Kind kind = Kind::kForward;
  std::vector<std::byte> body;
};

struct StoredCall {
  std::string name;
  bool is_foreign = false;
  std::vector<Wire> inputs, outputs;
  std::vector<std::int64_t> differentiable;
  std::vector<std::byte> work;
};

template <class Stream>
void visit(Stream& stream, StoredFunction& function) {
  stream.choice(function.kind, Kind::kCustomOp);
  stream(function.body);
}

template <class Stream>
void visit(Stream& stream, StoredCall& call) {
  stream(call.name, call.is_foreign, call.inputs, call.outputs, call.differentiable, call.work);
}

std::shared_ptr<aspen::HostFunction> restored_call(Kind kind, std::span<const std::byte> body) {
  auto stored = from_bytes<StoredCall>(body);
  auto work = std::make_shared<HostWork>(HostWork{.name = stored.name, .is_foreign = stored.is_foreign});
  work->run = restored_host_call(stored.work);
  work->stored = [bytes = stored.work] { return std::optional(bytes); };
  work->inputs = std::move(stored.inputs);
  work->outputs = std::move(stored.outputs);
  if (kind == Kind::kForward) return forward_call(std::move(work));
  for (const std::int64_t input : stored.differentiable) {
    const bool is_input = input >= 0 && static_cast<std::size_t>(input) < work->inputs.size();
    if (!is_input) throw aspen::FileError("{} has no input {}", stored.name, input);
  }
  return backward_call(std::move(work), std::move(stored.differentiable));
}

// Of all operands of a function, those that a node of the graph has. absent: the places of the others, in order.
std::vector<aspen::TensorType> present(const TypedFunction& function, const std::vector<std::int64_t>& absent) {
  std::vector<aspen::TensorType> types = function.input_types();
  for (std::size_t i = absent.size(); i-- > 0;) {
    const std::int64_t place = absent[i], end = i + 1 < absent.size() ? absent[i + 1] : std::ssize(types);
    if (place < 0 || place >= end) throw aspen::FileError("{} has no operand {}", function.name(), place);
    types.erase(types.begin() + place);
  }
  return types;
}

void check(const aspen::KernelRequest& request) {
  const auto& attributes = request.attrs.as<aspen::HostCallAttrs>();
  const auto* function = dynamic_cast<const TypedFunction*>(attributes.function.get());
  std::vector<aspen::TensorType> given;
  for (const aspen::KernelInput& input : request.inputs) given.push_back(input.type);
  if (function != nullptr && present(*function, attributes.absent) == given &&
      function->output_types() == request.outputs) {
    return;
  }
  throw aspen::FileError("a call of {} has other operands than it takes",
                         attributes.function == nullptr ? "nothing" : attributes.function->name());
}

}  // namespace

std::optional<std::vector<std::byte>> stored_call(const HostWork& work,
                                                  const std::optional<std::vector<std::int64_t>>& differentiable) {
  std::optional<std::vector<std::byte>> bytes = work.stored ? work.stored() : std::nullopt;
  if (!bytes) return std::nullopt;
  StoredCall call{.name = work.name, .is_foreign = work.is_foreign, .inputs = work.inputs, .outputs = work.outputs};
  call.differentiable = differentiable.value_or(std::vector<std::int64_t>());
  call.work = std::move(*bytes);
  StoredFunction function{differentiable ? Kind::kBackward : Kind::kForward, bytes_of(call)};
  return bytes_of(function);
}

std::vector<std::byte> stored_custom_op(std::vector<std::byte> call) {
  StoredFunction function{Kind::kCustomOp, std::move(call)};
  return bytes_of(function);
}

std::shared_ptr<aspen::HostFunction> read_host_function(const std::string& name, std::span<const std::byte> stored) {
  const auto function = from_bytes<StoredFunction>(stored);
  if (function.kind != Kind::kCustomOp) return restored_call(function.kind, function.body);
  try {
    return restored_custom_op(name, function.body);
  } catch (const Error& error) {  // it is not registered here
    throw aspen::FileError("{}", error.message());
  }
}

void check_host_calls(const aspen::Program& program) {
  for (const auto* tasks : {&program.step, &program.update}) {
    for (const aspen::Task& task : *tasks) {
      for (const aspen::Instruction& instruction : task.instructions) {
        if (!instruction.is_copy && instruction.request.op == "host_call") check(instruction.request);
      }
    }
  }
}

}  // namespace poptorch
