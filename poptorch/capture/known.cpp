#include "poptorch/capture/known.h"

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/compiler/evaluate.h"
#include "aspen/compiler/ir/op_def.h"

namespace poptorch {

Known::Known() : backend_(aspen::make_reference_backend()) {}

const Known::Bytes* Known::find(aspen::Value* value) {
  const auto seen = values_.find(value);
  if (seen != values_.end()) return seen->second.get();
  if (value->producer() == nullptr) return nullptr;
  evaluate(*value->producer());
  return values_[value].get();
}

void Known::evaluate(aspen::Op& op) {
  for (aspen::Value* output : op.outputs()) values_[output] = nullptr;
  if (op.is("body_input")) return;  // another value in every turn
  if (op.def().is_marker()) {
    for (std::size_t i = 0; i < op.num_outputs(); ++i) {
      if (const Bytes* bytes = find(op.input(i))) values_[op.output(i)] = std::make_unique<const Bytes>(*bytes);
    }
    return;
  }
  if (!op.is_function()) return;
  std::vector<const Bytes*> inputs;
  for (aspen::Value* input : op.inputs()) {
    inputs.push_back(input == nullptr ? nullptr : find(input));
    if (input != nullptr && inputs.back() == nullptr) return;
  }
  std::vector<Bytes> results =
      op.def().is_alias() ? std::vector<Bytes>{*inputs[0]} : aspen::evaluate(op, inputs, *backend_);
  for (std::size_t i = 0; i < results.size(); ++i) {
    values_[op.output(i)] = std::make_unique<const Bytes>(std::move(results[i]));
  }
}

}  // namespace poptorch
