#include "poptorch/capture/overlap.h"

#include "aspen/base/error.h"
#include "poptorch/api/spelling.h"
#include "poptorch/capture/recorder.h"

namespace poptorch {
namespace {

std::string name_of_mark(bool is_input) {
  return is_input ? spelled("setOverlapForInput", "set_overlap_for_input")
                  : spelled("setOverlapForOutput", "set_overlap_for_output");
}

bool is_graph_input(const aspen::Value* value) { return value->producer() == nullptr && value->variable() == nullptr; }

std::size_t times_returned(const aspen::Graph& graph, const aspen::Value* value) {
  std::size_t count = 0;
  for (const auto& output : graph.outputs()) count += output.value == value;
  return count;
}

void check_input(const aspen::Graph& graph, const OverlapMark& mark) {
  const aspen::Value* input = mark.op->input(0);
  if (input->users().size() == 1 && times_returned(graph, input) == 0) return;
  throw aspen::UserError(
      "[{0}] input \"{1}\" is used in {2} other places; an overlapped input may only be used through the tensor that "
      "{0} returns. Mark it first thing in forward and use the result.{3}",
      name_of_mark(true), input->name(), input->users().size() - 1 + times_returned(graph, input), mark.where);
}

// The tensor may be used by other ops as well; what comes out of the model is transferred once.
void check_output(const aspen::Graph& graph, const std::vector<OverlapMark>& marks, const OverlapMark& mark) {
  const aspen::Value* unmarked = mark.op->input(0);
  std::size_t times = times_returned(graph, unmarked);
  for (const OverlapMark& other : marks) {
    if (!other.is_input && other.op->input(0) == unmarked) times += times_returned(graph, other.op->output());
  }
  if (times == 1 && times_returned(graph, mark.op->output()) == 1) return;
  throw aspen::UserError(
      "[{}] the tensor, or what it was made from, is returned {} times; an overlapped output must be returned from "
      "forward exactly once. Mark it last thing in forward.{}",
      name_of_mark(false), times, mark.where);
}

void overlap_input(aspen::Graph& graph, const aspen::Value* input) {
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    if (graph.inputs()[i].get() == input) graph.overlap_input(i);
  }
}

void overlap_output(aspen::Graph& graph, const aspen::Value* output) {
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    if (graph.outputs()[i].value == output) graph.overlap_output(i);
  }
}

}  // namespace

at::Tensor mark_overlapped(Recorder& recorder, const at::Tensor& tensor, bool is_input) {
  recorder.locate();
  aspen::Value* value = recorder.value_of(tensor);
  if (is_input && !is_graph_input(value)) {
    throw aspen::UserError(
        "[{}] the tensor of shape {} is no input of the model, but was computed in forward; mark the inputs first "
        "thing in forward.{}",
        name_of_mark(true), aspen::to_string(value->shape()), recorder.where());
  }
  aspen::Op* mark = recorder.b.emit("nop", {value});
  recorder.overlap_marks.push_back({mark, is_input, recorder.where()});
  return recorder.wrap(mark->output(), tensor.scalar_type());
}

void resolve_overlap_marks(aspen::Graph& graph, const std::vector<OverlapMark>& marks) {
  for (const OverlapMark& mark : marks) {
    mark.is_input ? check_input(graph, mark) : check_output(graph, marks, mark);
  }
  for (const OverlapMark& mark : marks) {
    mark.is_input ? overlap_input(graph, mark.op->input(0)) : overlap_output(graph, mark.op->output());
    graph.replace_uses(mark.op->output(), mark.op->input(0));
    graph.erase(mark.op);
  }
}

}  // namespace poptorch
