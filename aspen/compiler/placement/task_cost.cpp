#include "aspen/compiler/placement/task_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "aspen/compiler/ir/op_def.h"
#include "aspen/ops/dot/dot.h"

namespace aspen {
namespace {

// How many multiplications take as long as reading or writing one element.
constexpr double kProductsPerElement = 8;

// Measured on the cpu backend with the networks of tests/cpu: an element of a tensor out of the cache, and what it
// takes to call a kernel or, for host calls, PyTorch.
constexpr double kNanosecondsPerElement = 0.2, kNanosecondsPerOp = 400, kNanosecondsPerHostCall = 20'000;

double products(const Op& op) {
  double a = static_cast<double>(op.input(0)->type().numel()), b = static_cast<double>(op.input(1)->type().numel());
  double y = static_cast<double>(op.output()->type().numel());
  if (op.is("dot")) {
    // (B, M, K) x (B, K, N) -> (B, M, N): B * M * K * N.
    const Shape& shape = op.input(0)->shape();
    return y * static_cast<double>(op.attrs<DotAttrs>().transpose_a ? shape[shape.size() - 2] : shape.back());
  }
  // conv(x, w) -> y: a kernel of w.numel / channels per element of y; the gradients do the same work.
  const Value* w = op.is("conv_weight_grad") ? op.output() : op.input(1);
  double out = op.is("conv") ? y : op.is("conv_input_grad") ? a : b;
  return out * static_cast<double>(w->type().numel()) / static_cast<double>(std::max<std::int64_t>(1, w->shape()[0]));
}

double work(const Op& op) {
  if (op.def().is_alias() || op.is("assign")) return 0;
  double elements = 0;
  for (const Value* input : op.inputs()) elements += input == nullptr ? 0 : static_cast<double>(input->type().numel());
  for (const Value* output : op.outputs()) elements += static_cast<double>(output->type().numel());
  bool is_product = op.is("dot") || op.is("conv") || op.is("conv_input_grad") || op.is("conv_weight_grad");
  return elements + (is_product ? products(op) / kProductsPerElement : 0);
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
