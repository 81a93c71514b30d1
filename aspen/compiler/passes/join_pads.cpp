#include "aspen/compiler/passes/join_pads.h"

#include <algorithm>
#include <vector>

#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/build.h"
#include "aspen/ops/shape/shape.h"

namespace aspen {
namespace {

bool used_once(const Graph& graph, const Value* value) {
  return value->users().size() == 1 && !graph.is_output(value) && !value->is_gradient();
}

// An addition of two values of the result's own type.
bool is_plain_add(const Op* op) {
  return op != nullptr && op->is("add") && op->input(0)->type() == op->output()->type() &&
         op->input(1)->type() == op->output()->type();
}

bool lie_together(const Op& a, const Op& b) { return a.section == b.section && a.placement == b.placement; }

// The values a sum adds up, from left to right.
std::vector<Value*> summands(const Graph& graph, Op* root) {
  std::vector<Value*> found, open{root->input(1), root->input(0)};
  while (!open.empty()) {
    Value* value = open.back();
    open.pop_back();
    Op* op = value->producer();
    if (is_plain_add(op) && lie_together(*op, *root) && used_once(graph, value)) {
      open.push_back(op->input(1));
      open.push_back(op->input(0));
    } else {
      found.push_back(value);
    }
  }
  return found;
}

// A value padded with zeros along one axis.
struct Part {
  Value* inner = nullptr;
  std::int64_t axis = 0, start = 0, end = 0;
};

bool as_part(const Graph& graph, Value* value, const Op& root, Part& part) {
  const Op* op = value->producer();
  if (op == nullptr || !op->is("pad") || !lie_together(*op, root) || !used_once(graph, value)) return false;
  const auto& pad = op->attrs<PadAttrs>();
  if (pad.value != 0) return false;
  int axes = 0;
  for (std::size_t i = 0; i < pad.low.size(); ++i) {
    if (pad.low[i] < 0 || pad.high[i] < 0 || pad.interior[i] != 0) return false;
    if (pad.low[i] == 0 && pad.high[i] == 0) continue;
    ++axes;
    part.axis = static_cast<std::int64_t>(i);
    part.start = pad.low[i];
    part.end = value->shape()[i] - pad.high[i];
  }
  part.inner = op->input(0);
  return axes == 1;
}

bool lie_beside_each_other(const std::vector<Part>& parts) {
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].axis != parts[0].axis || parts[i].start < parts[i - 1].end) return false;
  }
  return true;
}

// The parts with zeros where none of them lies.
Value* joined(Builder& b, const std::vector<Part>& parts, const TensorType& whole) {
  std::int64_t axis = parts[0].axis, reached = 0;
  std::vector<Value*> row;
  auto fill_up_to = [&](std::int64_t place) {
    if (place == reached) return;
    Shape shape = whole.shape;
    shape[axis] = place - reached;
    row.push_back(build::full(b, whole.dtype, std::move(shape), 0));
  };
  for (const Part& part : parts) {
    fill_up_to(part.start);
    row.push_back(part.inner);
    reached = part.end;
  }
  fill_up_to(whole.shape[axis]);
  return build::concat(b, std::move(row), axis);
}

void join_in_sum(Graph& graph, Op* root) {
  std::vector<Part> parts;
  std::vector<Value*> others;
  for (Value* value : summands(graph, root)) {
    Part part;
    if (as_part(graph, value, *root, part)) {
      parts.push_back(part);
    } else {
      others.push_back(value);
    }
  }
  if (parts.size() < 2 || others.size() > 1) return;
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.start < b.start; });
  if (!lie_beside_each_other(parts)) return;
  Builder b(graph);
  b.like(*root);
  b.before = root;
  Value* sum = joined(b, parts, root->output()->type());
  if (!others.empty()) sum = build::add(b, others[0], sum);
  replace_op(graph, root, sum);
}

// The last addition of a sum.
bool is_root(const Graph& graph, Op* op) {
  if (!is_plain_add(op)) return false;
  if (!used_once(graph, op->output())) return true;
  const Op* user = op->output()->users().front();
  return !is_plain_add(user) || !lie_together(*user, *op);
}

}  // namespace

void join_pads(Graph& graph, const PassContext&) {
  std::vector<Op*> roots;
  for (const auto& op : graph.ops()) {
    if (is_root(graph, op.get())) roots.push_back(op.get());
  }
  for (Op* root : roots) join_in_sum(graph, root);
}

}  // namespace aspen
