#include "aspen/compiler/passes/round_products.h"

#include <algorithm>
#include <vector>

#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/build.h"
#include "aspen/ops/dot/dot.h"

namespace aspen {
namespace {

// How often an element is used at least, for which rounding it pays.
constexpr std::int64_t kLeastUses = 32;

bool is_worth_rounding(const Op& op) {
  if (!op.is("dot") || op.output()->dtype() != DType::kF32) return false;
  const Shape &a = op.input(0)->shape(), &y = op.output()->shape();
  const std::int64_t m = y[y.size() - 2], n = y.back();
  const std::int64_t k = op.attrs<DotAttrs>().transpose_a ? a[a.size() - 2] : a.back();
  return std::min({m, n, k}) >= kLeastUses;
}

}  // namespace

void round_products(Graph& graph, const PassContext& context) {
  if (!context.options.bfloat16_products) return;
  std::vector<Op*> products;
  for (const auto& op : graph.ops()) {
    if (is_worth_rounding(*op)) products.push_back(op.get());
  }
  Builder b(graph);
  for (Op* op : products) {
    b.like(*op);
    b.before = op;
    Value* left = build::cast(b, op->input(0), DType::kBF16);
    Value* right = op->input(1) == op->input(0) ? left : build::cast(b, op->input(1), DType::kBF16);
    replace_value(graph, op->output(), b.make("dot_float", {left, right}, op->attrs<DotAttrs>()));
    graph.erase(op);
  }
}

}  // namespace aspen
