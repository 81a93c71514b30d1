#include "aspen/compiler/passes/round_products.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/build.h"
#include "aspen/ops/conv/conv.h"
#include "aspen/ops/dot/dot.h"

namespace aspen {
namespace {

// How often an element is used at least, for which rounding it pays.
constexpr std::int64_t kLeastUses = 32;

// Channels of a group that convolutions in bfloat16 take at a time. Images of fewer lie batch last (put_batch_last).
constexpr std::int64_t kLeastChannels = 16;

bool is_worth_rounding(const Op& dot) {
  const Shape &a = dot.input(0)->shape(), &y = dot.output()->shape();
  const std::int64_t m = y[y.size() - 2], n = y.back();
  const std::int64_t k = dot.attrs<DotAttrs>().transpose_a ? a[a.size() - 2] : a.back();
  return std::min({m, n, k}) >= kLeastUses;
}

// x, w and y are those of the forward pass, whichever pass it is.
bool is_worth_rounding(const ConvAttrs& attrs, const Shape& x, const Shape& w, const Shape& y) {
  const std::int64_t channels = w[1], outputs = w[0] / attrs.groups;
  if (std::min(channels, outputs) < kLeastChannels) return false;
  const std::int64_t taps = numel(Shape(w.begin() + 2, w.end()));
  const std::int64_t pixels = numel(y) / y[1];
  return std::min({outputs * taps, channels * taps, pixels}) >= kLeastUses && numel(x) > 0;
}

// What takes the place of `op`, with operands in bfloat16; empty where it stays.
std::string_view name_in_bfloat16(const Op& op) {
  if (op.num_outputs() != 1 || op.output()->dtype() != DType::kF32) return "";
  const auto shape = [&](std::size_t i) -> const Shape& { return op.input(i)->shape(); };
  if (op.is("dot")) return is_worth_rounding(op) ? "dot_float" : "";
  if (op.is("conv")) {
    const bool is_worth = is_worth_rounding(op.attrs<ConvAttrs>(), shape(0), shape(1), op.output()->shape());
    return is_worth ? "conv_float" : "";
  }
  if (op.is("conv_input_grad")) {
    const auto& attrs = op.attrs<ConvGradAttrs>();
    return is_worth_rounding(attrs.conv, attrs.shape, shape(1), shape(0)) ? "conv_input_grad_float" : "";
  }
  if (op.is("conv_weight_grad")) {
    const auto& attrs = op.attrs<ConvGradAttrs>();
    return is_worth_rounding(attrs.conv, shape(0), attrs.shape, shape(1)) ? "conv_weight_grad_float" : "";
  }
  return "";
}

}  // namespace

void round_products(Graph& graph, const PassContext& context) {
  if (!context.options.bfloat16_products) return;
  std::vector<Op*> products;
  for (const auto& op : graph.ops()) {
    if (!name_in_bfloat16(*op).empty()) products.push_back(op.get());
  }
  Builder b(graph);
  for (Op* op : products) {
    b.like(*op);
    b.before = op;
    std::vector<Value*> operands = op->inputs();  // a bias stays as it is
    operands[0] = build::cast(b, op->input(0), DType::kBF16);
    operands[1] = op->input(1) == op->input(0) ? operands[0] : build::cast(b, op->input(1), DType::kBF16);
    replace_value(graph, op->output(), b.make(name_in_bfloat16(*op), operands, op->attrs()));
    graph.erase(op);
  }
}

}  // namespace aspen
