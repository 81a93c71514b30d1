#include "aspen/compiler/placement/task_cost.h"

#include <algorithm>

#include "aspen/compiler/ir/body.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/placement/stages.h"
#include "aspen/ops/control/control.h"

namespace aspen {
namespace {

// How many multiplications take as long as reading or writing one element.
constexpr double kProductsPerElement = 8;

// Measured on the cpu backend with the networks of tests/cpu: an element of a tensor out of the cache, and what it
// takes to call a kernel or, for host calls, PyTorch.
constexpr double kNanosecondsPerElement = 0.2, kNanosecondsPerOp = 400, kNanosecondsPerHostCall = 20'000;

// How often each body of an op runs; of two branches both are counted, as either may be taken.
double runs_of_bodies(const Op& op) { return op.is("loop") ? static_cast<double>(op.attrs<LoopAttrs>().count) : 1; }

double work(const Op& op) {
  if (op.def().is_alias() || op.is("assign")) return 0;
  double in_bodies = 0;
  for (const Graph* body : bodies_of(op)) {
    for (const auto& inner : body->ops()) in_bodies += runs_of_bodies(op) * work(*inner);
  }
  double elements = 0;
  for (const Value* input : op.inputs()) elements += input == nullptr ? 0 : static_cast<double>(input->type().numel());
  for (const Value* output : op.outputs()) elements += static_cast<double>(output->type().numel());
  return in_bodies + elements + op.def().num_products(op) / kProductsPerElement;
}

// Calls of kernels and of functions on the host.
double nanoseconds_of_calls(const Op& op) {
  if (op.def().is_alias() || op.is("assign")) return 0;
  double sum = op.is("host_call") ? kNanosecondsPerHostCall : kNanosecondsPerOp;
  for (const Graph* body : bodies_of(op)) {
    for (const auto& inner : body->ops()) sum += runs_of_bodies(op) * nanoseconds_of_calls(*inner);
  }
  return sum;
}

}  // namespace

double estimate_nanoseconds(const Op& op) { return kNanosecondsPerElement * work(op) + nanoseconds_of_calls(op); }

std::vector<double> estimate_nanoseconds(const Graph& graph) {
  std::vector<double> result(graph.tasks.size(), 0);
  for (const auto& op : graph.ops()) result[op->task] += estimate_nanoseconds(*op);
  return result;
}

void set_costs(Graph& graph) {
  constexpr double kForward = 1, kBackward = 2;
  std::vector<bool> goes_forward(graph.tasks.size()), goes_back(graph.tasks.size());
  const RemadeOps is_remade(graph);
  for (const auto& op : graph.ops()) {
    if (is_remade(*op)) continue;  // made wherever it is read: a constant of the forward pass in the backward pass, too
    (op->backward ? goes_back : goes_forward)[op->task] = true;
  }
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const double cost = (goes_forward[i] ? kForward : 0) + (goes_back[i] ? kBackward : 0);
    graph.tasks[i].cost = std::max(cost, kForward);
  }
}

}  // namespace aspen
