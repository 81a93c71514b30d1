#include "aspen/compiler/passes/fuse_updates.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "aspen/base/log.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/dot/dot.h"
#include "aspen/ops/index/index.h"

namespace aspen {
namespace {

constexpr std::int64_t kLeastElements = 1 << 16, kMostSummands = 512;

// The operands of a gradient, and the ops that make it of them together with an update.
struct Source {
  const char *with_sgd = nullptr, *with_adam = nullptr;  // nullptr: there are none
  std::vector<Value*> operands = {};
};

bool is_zero(const Value& value) {
  const std::optional<double> number = number_of(value);
  return number == 0 && !std::signbit(*number);
}

Source source_of(const Op& op) {
  if (op.is("dot")) {
    const auto& attrs = op.attrs<DotAttrs>();
    const bool is_of_linear_layer = attrs.transpose_a && !attrs.transpose_b && op.output()->type().rank() == 2;
    if (is_of_linear_layer && op.input(0)->shape()[0] <= kMostSummands)
      return {"dot_sgd", "dot_adam", {op.input(0), op.input(1)}};
  }
  if (op.is("scatter_rows")) {
    const auto& attrs = op.attrs<ScatterAttrs>();
    if (attrs.axis == 0 && attrs.mode == "add" && is_zero(*op.input(0)))
      return {"rows_sgd", "rows_adam", {op.input(1), op.input(2)}};
  }
  return {};
}

// Whether all but the index of rows are in float32.
bool is_plain(const Op& update) {
  return std::all_of(update.inputs().begin(), update.inputs().end(),
                     [](const Value* input) { return input->dtype() == DType::kF32; });
}

bool has_half(const Graph& graph) {
  return std::any_of(graph.ops().begin(), graph.ops().end(), [](const auto& op) {
    const std::vector<Value*> outputs = op->outputs();
    return std::any_of(outputs.begin(), outputs.end(), [](const Value* y) { return y->dtype() == DType::kF16; });
  });
}

bool fuse(Graph& graph, Op* update) {
  const Value& gradient = *update->input(1);
  Op* producer = gradient.producer();
  if (producer == nullptr || gradient.users().size() != 1 || gradient.is_output() || gradient.is_gradient())
    return false;
  if (!run_together(*producer, *update) || !is_plain(*update)) return false;
  if (gradient.type() != update->input(0)->type() || gradient.type().numel() < kLeastElements) return false;
  const Source source = source_of(*producer);
  if (source.with_sgd == nullptr) return false;
  std::vector<Value*> inputs{update->input(0)};
  inputs.insert(inputs.end(), source.operands.begin(), source.operands.end());
  inputs.insert(inputs.end(), update->inputs().begin() + 2, update->inputs().end());
  Builder b(graph);
  b.before = update;
  Op* fused = b.emit(update->is("sgd") ? source.with_sgd : source.with_adam, std::move(inputs), update->attrs());
  fused->take_stamps(*update);
  for (std::size_t i = 0; i < update->num_outputs(); ++i) replace_value(graph, update->output(i), fused->output(i));
  graph.erase(update);
  graph.erase(producer);
  return true;
}

}  // namespace

void fuse_updates(Graph& graph, const PassContext& context) {
  if (context.options.checks_floats || has_half(graph)) return;
  std::vector<Op*> updates;
  for (const auto& op : graph.ops()) {
    if (op->is("sgd") || op->is("adam")) updates.push_back(op.get());
  }
  const auto num_fused = std::count_if(updates.begin(), updates.end(), [&](Op* op) { return fuse(graph, op); });
  if (!updates.empty()) log::debug("updates: {} of {} with their gradients", num_fused, updates.size());
}

}  // namespace aspen
