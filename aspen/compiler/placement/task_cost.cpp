#include "aspen/compiler/placement/task_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "aspen/compiler/ir/op_def.h"

namespace aspen {
namespace {

// How many multiplications take as long as reading or writing one element.
constexpr double kProductsPerElement = 8;

// Measured on the cpu backend with the networks of tests/cpu: an element of a tensor out of the cache, and what it
// takes to call a kernel or, for host calls, PyTorch.
constexpr double kNanosecondsPerElement = 0.2, kNanosecondsPerOp = 400, kNanosecondsPerHostCall = 20'000;

double work(const Op& op) {
  if (op.def().is_alias() || op.is("assign")) return 0;
  double elements = 0;
  for (const Value* input : op.inputs()) elements += input == nullptr ? 0 : static_cast<double>(input->type().numel());
  for (const Value* output : op.outputs()) elements += static_cast<double>(output->type().numel());
  return elements + op.def().num_products(op) / kProductsPerElement;
}

}  // namespace

std::vector<double> estimate_nanoseconds(const Graph& graph) {
  std::vector<double> result(graph.tasks.size(), 0);
  for (const auto& op : graph.ops()) {
    if (op->def().is_alias() || op->is("assign")) continue;
    result[op->task] +=
        kNanosecondsPerElement * work(*op) + (op->is("host_call") ? kNanosecondsPerHostCall : kNanosecondsPerOp);
  }
  return result;
}

void estimate_costs(Graph& graph) {
  std::vector<double> works(graph.tasks.size(), 1);  // no task is free
  for (const auto& op : graph.ops()) works[op->task] += work(*op);
  for (Section section : {Section::kStep, Section::kUpdate}) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < works.size(); ++i) {
      if (graph.tasks[i].section == section) least = std::min(least, works[i]);
    }
    for (std::size_t i = 0; i < works.size(); ++i) {
      if (graph.tasks[i].section == section) graph.tasks[i].cost = std::round(works[i] / least);
    }
  }
}

}  // namespace aspen
