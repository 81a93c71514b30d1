#include "aspen/compiler/passes/merge_common.h"

#include <unordered_map>

#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/compiler/placement/stages.h"

namespace aspen {
namespace {

constexpr std::size_t kLargestMergedSource = 16 << 10;

bool can_merge(const Op& op) {
  if (!op.is_function() || op.num_outputs() == 0) return false;
  return op.num_inputs() > 0 || op.def().is_stored() || op.output()->type().bytes() <= kLargestMergedSource;
}

// Whether forward and backward pass run as tasks of their own somewhere. A result that both use then has to be kept,
// often for many micro-batches: computing it again is cheaper.
bool splits_directions(const Graph& graph, const CompileOptions& options) {
  return options.execution == Execution::kPhased || devices_in_use(graph).size() > 1;
}

// Of all that are_equal compares: copies of an op in every stage must not meet under one key.
std::size_t hash_of(const Op& op, bool splits_directions) {
  std::size_t hash = std::hash<const void*>()(&op.def()) ^ op.attrs().hash();
  const auto add = [&](std::int64_t number) { hash = hash * 0x9E3779B97F4A7C15u + static_cast<std::size_t>(number); };
  for (const Value* input : op.inputs()) add(input == nullptr ? -1 : input->id());
  for (std::int64_t number : {op.placement.device, op.placement.stage, op.placement.phase}) add(number);
  add(static_cast<std::int64_t>(op.section));
  if (splits_directions) add(op.backward ? 1 : 0);
  return hash;
}

bool are_equal(const Op& a, const Op& b, bool splits_directions) {
  if (splits_directions && a.backward != b.backward) return false;
  return &a.def() == &b.def() && a.inputs() == b.inputs() && a.section == b.section && a.placement == b.placement &&
         a.attrs() == b.attrs();
}

}  // namespace

void merge_common(Graph& graph, const PassContext& context) {
  bool splits = splits_directions(graph, context.options);
  std::unordered_multimap<std::size_t, Op*> seen;  // only looked up by key: its order never shows
  for (auto place = graph.ops().begin(); place != graph.ops().end();) {
    Op* op = (place++)->get();
    if (!can_merge(*op)) continue;
    std::size_t hash = hash_of(*op, splits);
    Op* first = nullptr;
    auto [begin, end] = seen.equal_range(hash);
    for (auto candidate = begin; candidate != end && first == nullptr; ++candidate) {
      if (are_equal(*candidate->second, *op, splits)) first = candidate->second;
    }
    if (first == nullptr) {
      seen.emplace(hash, op);
      continue;
    }
    if (!op->backward) first->backward = false;  // their inputs are the same: nothing backward is among them
    for (std::size_t i = 0; i < op->num_outputs(); ++i) replace_value(graph, op->output(i), first->output(i));
    graph.erase(op);
  }
}

}  // namespace aspen
