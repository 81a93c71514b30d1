#include "aspen/compiler/passes/rewrite.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "aspen/backends/api/convert.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/ops/source/source.h"

namespace aspen {

void replace_value(Graph& graph, Value* from, Value* to) {
  if (from->type() != to->type()) {
    throw InternalError("replacing a value of type {} by one of type {}", to_string(from->type()),
                        to_string(to->type()));
  }
  graph.replace_uses(from, to);
  if (to->name().empty() && !from->name().empty()) {
    to->set_name(from->name());
    from->set_name("");
  }
}

void replace_op(Graph& graph, Op* op, Value* to) {
  replace_value(graph, op->output(), to);
  graph.erase(op);
}

bool run_together(const Op& a, const Op& b) {
  return a.task == b.task && a.section == b.section && a.backward == b.backward && a.placement == b.placement;
}

bool belong_together(const Op& a, const Op& b) {
  return a.section == b.section && a.backward == b.backward && a.no_grad == b.no_grad;
}

std::optional<double> number_of(const Value& value) {
  const Op* op = value.producer();
  if (op == nullptr) return std::nullopt;
  if (op->is("full")) return op->attrs<FullAttrs>().value;
  if (!op->is("constant") || value.type().numel() != 1) return std::nullopt;
  return dispatch_stored(value.dtype(), [&](auto tag) {
    typename decltype(tag)::type number;
    std::memcpy(&number, op->attrs<ConstantAttrs>().data.bytes->data(), sizeof number);
    return convert<double>(number);
  });
}

std::vector<Variable*> variables_with_gradients(const Graph& graph) {
  std::vector<Variable*> result;
  for (const auto& variable : graph.variables()) {
    if (variable->gradient() != nullptr) result.push_back(variable.get());
  }
  return result;
}

namespace {

// The op that makes a value, or that stores what a variable holds.
const Op& source_of(const Value& value) {
  if (value.producer() != nullptr) return *value.producer();
  for (const Op* user : value.users()) {
    if (user->is("assign") && user->input(0) == &value) return *user;
  }
  throw InternalError("the gradient %{} is made nowhere", value.name());
}

}  // namespace

const Op& home_of(const Variable& variable) {
  for (const Op* user : variable.value->users()) {
    bool is_forward = user->section == Section::kStep && !user->backward && !user->is("assign");
    if (is_forward && !user->no_grad && !user->def().does_stop_gradients()) return *user;
  }
  return source_of(*variable.gradient());
}

bool only_moves(const Op& op) {
  constexpr std::array<std::string_view, 12> kMoves{"transpose", "broadcast", "reverse", "slice",
                                                    "pad",       "concat",    "take",    "slice_update",
                                                    "gather",    "send",      "select",  "assign"};
  return op.def().is_alias() || std::find(kMoves.begin(), kMoves.end(), op.name()) != kMoves.end();
}

bool is_update(const Op& op) {
  return op.is("sgd") || op.is("adam") || op.is("rmsprop") || op.is("lamb") || op.is("lamb_step");
}

Value* find_value(const Graph& graph, std::string_view name) {
  for (const auto& op : graph.ops()) {
    for (Value* output : op->outputs()) {
      if (output->name() == name) return output;
    }
  }
  return nullptr;
}

}  // namespace aspen
