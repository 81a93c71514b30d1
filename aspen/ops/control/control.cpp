// Loops, branches and calls: ops that own graphs. Their gradients are in compiler/autodiff/body_gradients.cpp, their
// kernels are made by compiler/control_kernels.cpp out of those of the ops in their graphs.
#include "aspen/ops/control/control.h"

#include "aspen/compiler/ir/body.h"
#include "aspen/compiler/ir/op_def.h"

namespace aspen {
namespace {

// What only the executor can do, with all there is of a program at hand.
bool is_of_programs(const Op& op) {
  return op.is("assign") || op.is("send") || op.is("store") || op.is("load") || op.name().starts_with("replica_");
}

// `body` takes operands from `first` on, has no variables, and asks for nothing beyond them.
const Graph& checked(const InferContext& c, const Body& body, const char* name, std::size_t first) {
  c.check(body != nullptr, "{} is missing.", name);
  const Graph& graph = graph_of(body);
  c.check(graph.variables().empty(), "{} has variables; a graph that an op owns gets them as operands.", name);
  c.check(graph.inputs().size() + first == c.num_inputs(), "{} takes {} values and gets {}.", name,
          graph.inputs().size(), c.num_inputs() - first);
  for (const auto& op : graph.ops()) c.check(!is_of_programs(*op), "{} has an op {} in it.", name, op->name());
  return graph;
}

void check_operand(const InferContext& c, const Graph& body, std::size_t input, const TensorType& given) {
  const TensorType& taken = body.inputs()[input]->type();
  c.check(taken == given, "input {} of graph {} is {} and gets {}.", input, body.name(), to_string(taken),
          to_string(given));
}

TensorType row_of(const InferContext& c, std::size_t i, std::int64_t count) {
  TensorType type = c.in(i);
  c.check(!type.shape.empty() && type.shape[0] == count, "operand {} is {}; it must have one row for each of {} turns.",
          i, to_string(type), count);
  type.shape.erase(type.shape.begin());
  return type;
}

std::vector<TensorType> infer_loop(const InferContext& c) {
  const auto& loop = c.attrs<LoopAttrs>();
  c.check(loop.count >= 0 && loop.carried >= 0 && loop.sliced >= 0, "{} turns, {} carried and {} sliced operands.",
          loop.count, loop.carried, loop.sliced);
  const Graph& body = checked(c, loop.body, "body", 0);
  const auto carried = static_cast<std::size_t>(loop.carried), sliced = static_cast<std::size_t>(loop.sliced);
  c.check(carried <= c.num_inputs() && sliced <= c.num_inputs() - carried && carried <= body.outputs().size(),
          "{} carried and {} sliced operands of {}, and {} results of the body.", carried, sliced, c.num_inputs(),
          body.outputs().size());
  std::vector<TensorType> results;
  for (std::size_t i = 0; i < c.num_inputs(); ++i) {
    const bool is_sliced = i >= carried && i < carried + sliced;
    check_operand(c, body, i, is_sliced ? row_of(c, i, loop.count) : c.in(i));
    if (i >= carried) continue;
    const TensorType& returned = body.outputs()[i].value->type();
    c.check(returned == c.in(i), "carried value {} is {} and becomes {}.", i, to_string(c.in(i)), to_string(returned));
    results.push_back(returned);
  }
  for (std::size_t i = carried; i < body.outputs().size(); ++i) {
    TensorType stack = body.outputs()[i].value->type();
    stack.shape.insert(stack.shape.begin(), loop.count);
    results.push_back(std::move(stack));
  }
  return results;
}

std::vector<TensorType> results_of(const Graph& body) {
  std::vector<TensorType> results;
  for (const Graph::Output& output : body.outputs()) results.push_back(output.value->type());
  return results;
}

std::vector<TensorType> infer_cond(const InferContext& c) {
  const auto& attrs = c.attrs<CondAttrs>();
  c.check(c.in(0).dtype == DType::kBool && c.in(0).numel() == 1, "the condition is {}; it must be one bool.",
          to_string(c.in(0)));
  const Graph& yes = checked(c, attrs.then_body, "then_body", 1);
  const Graph& no = checked(c, attrs.else_body, "else_body", 1);
  for (const Graph* body : {&yes, &no}) {
    for (std::size_t i = 0; i < body->inputs().size(); ++i) check_operand(c, *body, i, c.in(i + 1));
  }
  c.check(results_of(yes) == results_of(no), "the bodies return values of different types.");
  return results_of(yes);
}

std::vector<TensorType> infer_call(const InferContext& c) {
  const Graph& body = checked(c, c.attrs<CallAttrs>().body, "body", 0);
  for (std::size_t i = 0; i < body.inputs().size(); ++i) check_operand(c, body, i, c.in(i));
  return results_of(body);
}

std::vector<TensorType> infer_body_input(const InferContext& c) { return {c.in(0)}; }

}  // namespace

void define_control(OpRegistry& ops) {
  // While a body is recorded in the middle of a graph: see poptorch/capture/region.h.
  ops.define("body_input")
      .summary("x, as an input of the graph that is recorded from here on.")
      .input("x", "any type")
      .output("y", "x")
      .alias()
      .marker()
      .infer(infer_body_input)
      .gradient([](GradientContext& c) { c.set(0, c.grad()); })
      .example({.inputs = {{DType::kF32, {2, 3}}}});
  ops.define<LoopAttrs>("loop")
      .summary("Runs a graph a number of times, each time on what it has returned before.")
      .inputs("operands", "carried from turn to turn, then one row for each turn, then the same for all")
      .outputs("results", "carried values after the last turn, then one row of each turn")
      .owns_graphs()
      .inplace([](const Op& op) {
        std::vector<std::pair<std::size_t, std::size_t>> pairs;
        const auto carried = static_cast<std::size_t>(op.attrs<LoopAttrs>().carried);
        for (std::size_t i = 0; i < carried; ++i) pairs.emplace_back(i, i);
        return pairs;
      })
      .infer(infer_loop);
  ops.define<CondAttrs>("cond")
      .summary("Runs one of two graphs; what the other one would do does not happen.")
      .input("condition", "one bool: whether it is then_body")
      .inputs("operands", "of both graphs")
      .outputs("results", "of the graph that is run")
      .owns_graphs()
      .infer(infer_cond);
  ops.define<CallAttrs>("call")
      .summary("Runs a graph, which other calls may run as well.")
      .inputs("operands", "of the graph")
      .outputs("results", "of the graph")
      .owns_graphs()
      .infer(infer_call);
}

}  // namespace aspen
