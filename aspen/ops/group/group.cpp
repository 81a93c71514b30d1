// Groups: pointwise ops that run together, a tile of their elements at a time, so that what passes between them stays
// in the cache. Made by compiler/passes/group_elementwise.cpp after gradients are taken; the kernel is made by
// compiler/group_kernel.cpp out of those of the ops in the body.
#include "aspen/ops/group/group.h"

#include <algorithm>

#include "aspen/compiler/ir/body.h"
#include "aspen/compiler/ir/op_def.h"

namespace aspen {
namespace {

bool is_slice(const Op* op) { return op->is("slice"); }

// Slices of operands, and pointwise ops.
void check_ops(const InferContext& c, const Graph& body, const Shape& shape) {
  for (const auto& op : body.ops()) {
    c.check((op->def().is_pointwise() && op->num_outputs() == 1) ||
                (is_slice(op.get()) && op->input(0)->producer() == nullptr),
            "body has an op {} in it, which is neither pointwise nor a slice of an operand.", op->name());
    c.check(op->output()->shape() == shape, "op {} in body gives {}; all must be of shape {}.", op->name(),
            to_string(op->output()->type()), to_string(shape));
  }
}

// Only slices are read of an operand that does not broadcast to the shape, and none of one that may be written over.
void check_operand(const InferContext& c, const Graph& body, std::size_t i, const Shape& shape) {
  const auto& users = body.inputs()[i]->users();
  const bool has_slices = std::any_of(users.begin(), users.end(), is_slice);
  c.check(!has_slices || i >= static_cast<std::size_t>(c.attrs<GroupAttrs>().carried),
          "operand {} is carried, and has a slice.", i);
  if (has_slices && std::all_of(users.begin(), users.end(), is_slice)) return;
  c.check(broadcast_shapes(shape, c.in(i).shape, c.who()) == shape, "operand {} is {}; it must broadcast to {}.", i,
          to_string(c.in(i)), to_string(shape));
}

std::vector<TensorType> infer_group(const InferContext& c) {
  const auto& attrs = c.attrs<GroupAttrs>();
  c.check(attrs.body != nullptr, "body is missing.");
  const Graph& body = graph_of(attrs.body);
  c.check(body.variables().empty(), "body has variables; a graph that an op owns gets them as operands.");
  c.check(body.inputs().size() == c.num_inputs(), "body takes {} values and gets {}.", body.inputs().size(),
          c.num_inputs());
  c.check(!body.outputs().empty(), "body returns nothing.");
  for (std::size_t i = 0; i < c.num_inputs(); ++i) {
    const TensorType& taken = body.inputs()[i]->type();
    c.check(taken == c.in(i), "input {} of body is {} and gets {}.", i, to_string(taken), to_string(c.in(i)));
  }
  std::vector<TensorType> results;
  for (const Graph::Output& output : body.outputs()) {
    const Op* producer = output.value->producer();
    c.check(producer != nullptr && !is_slice(producer), "body returns an operand as it is.");
    results.push_back(output.value->type());
  }
  const Shape& shape = results[0].shape;
  check_ops(c, body, shape);
  for (std::size_t i = 0; i < c.num_inputs(); ++i) check_operand(c, body, i, shape);
  c.check(attrs.carried >= 0 && static_cast<std::size_t>(attrs.carried) <= std::min(c.num_inputs(), results.size()),
          "{} carried operands of {}, and {} results.", attrs.carried, c.num_inputs(), results.size());
  for (std::size_t i = 0; i < static_cast<std::size_t>(attrs.carried); ++i) {
    c.check(results[i] == c.in(i), "result {} is {} and may not take the place of {}.", i, to_string(results[i]),
            to_string(c.in(i)));
  }
  return results;
}

}  // namespace

void define_group(OpRegistry& ops) {
  ops.define<GroupAttrs>("group")
      .summary("Runs a graph of pointwise ops over one shape, a tile of elements at a time.")
      .inputs("operands", "of the graph; they broadcast to the shape, or slices are taken of them")
      .outputs("results", "of the graph, all of one shape")
      .owns_graphs()
      .takes_wide()
      .inplace([](const Op& op) {
        std::vector<std::pair<std::size_t, std::size_t>> pairs;
        const auto carried = static_cast<std::size_t>(op.attrs<GroupAttrs>().carried);
        for (std::size_t i = 0; i < carried; ++i) pairs.emplace_back(i, i);
        return pairs;
      })
      .infer(infer_group);
}

}  // namespace aspen
