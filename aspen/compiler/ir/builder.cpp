#include "aspen/compiler/ir/builder.h"

namespace aspen {

Op* Builder::emit(std::string_view name, std::vector<Value*> inputs, Attrs attrs) {
  Op* op = nullptr;
  try {
    op = graph_.add_op(registry_.find(name), std::move(inputs), std::move(attrs), before);
  } catch (const Error&) {
    if (location.source.empty()) throw;
    rethrow_with_context("captured at " + location.source);
  }
  op->location = location;
  op->placement = placement;
  op->section = section;
  op->backward = backward;
  op->no_grad = no_grad;
  return op;
}

void Builder::like(const Op& op) {
  location = op.location;
  placement = op.placement;
  section = op.section;
  backward = op.backward;
  no_grad = op.no_grad;
}

}  // namespace aspen
