#include "aspen/compiler/passes/simplify_bodies.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "aspen/compiler/ir/body.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/passes/canonicalise.h"
#include "aspen/compiler/passes/fold_constants.h"
#include "aspen/compiler/passes/join_pads.h"
#include "aspen/compiler/passes/merge_common.h"
#include "aspen/compiler/passes/remove_dead.h"
#include "aspen/compiler/passes/remove_markers.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/compiler/passes/round_products.h"
#include "aspen/ops/control/control.h"

namespace aspen {
namespace {

void simplify(Graph& body, const PassContext& context) {
  remove_markers(body, context);
  round_products(body, context);
  remove_dead(body, context);
  canonicalise(body, context);
  fold_constants(body, context);
  canonicalise(body, context);
  join_pads(body, context);
  merge_common(body, context);
  simplify_bodies(body, context);
  remove_dead(body, context);
}

// Which operands and results of an op stay.
struct Kept {
  std::vector<bool> operands, results;
};

// An op that owns graphs, while it is changed.
class OpSimplifier {
 public:
  OpSimplifier(Graph& graph, Op& op, const PassContext& context)
      : graph_(graph), op_(op), context_(context), first_(op.is("cond") ? 1 : 0),
        carried_(op.is("loop") ? static_cast<std::size_t>(op.attrs<LoopAttrs>().carried) : 0) {}

  void run() {
    for (const Graph* body : bodies_of(op_)) {
      bodies_.push_back(copy_body(*body));
      simplify(*bodies_.back(), context_);
    }
    merge_equal_results();
    merge_equal_operands();
    replace(find_kept());
  }

 private:
  // -- equal ones
  // Results that are the same in every body; carried values are not looked at, as they may begin differently.
  void merge_equal_results() {
    for (std::size_t i = carried_; i < op_.num_outputs(); ++i) {
      for (std::size_t earlier = carried_; earlier < i; ++earlier) {
        const bool are_equal = std::all_of(bodies_.begin(), bodies_.end(), [&](const auto& body) {
          return body->outputs()[i].value == body->outputs()[earlier].value;
        });
        if (!are_equal || op_.output(i)->type() != op_.output(earlier)->type()) continue;
        graph_.replace_uses(op_.output(i), op_.output(earlier));
        break;
      }
    }
  }

  // Operands of one kind that are the same value.
  void merge_equal_operands() {
    std::unordered_map<const Value*, std::size_t> rows, others;  // by input of the bodies
    for (std::size_t i = carried_; i + first_ < op_.num_inputs(); ++i) {
      auto [found, is_new] = (is_row(i) ? rows : others).emplace(op_.input(i + first_), i);
      if (is_new) continue;
      for (const auto& body : bodies_) body->replace_uses(input(*body, i), input(*body, found->second));
    }
  }

  bool is_row(std::size_t i) const {
    return op_.is("loop") && i < carried_ + static_cast<std::size_t>(op_.attrs<LoopAttrs>().sliced);
  }

  static Value* input(const Graph& body, std::size_t i) { return body.inputs()[i].get(); }

  // -- needed ones
  Kept find_kept() const {
    Kept kept;
    for (const Value* result : op_.outputs()) kept.results.push_back(result->is_used());
    kept.operands.assign(op_.num_inputs() - first_, false);
    bool has_grown = true;
    while (has_grown) {
      has_grown = false;
      for (const auto& body : bodies_) {
        const std::unordered_set<const Value*> needed = needed_in(*body, kept.results);
        for (std::size_t i = 0; i < kept.operands.size(); ++i) {
          if (needed.count(input(*body, i)) != 0) kept.operands[i] = true;
        }
      }
      for (std::size_t i = 0; i < carried_; ++i) {  // what is returned is needed if it is read in the next turn
        const bool is_kept = kept.operands[i] || kept.results[i];
        has_grown = has_grown || is_kept != kept.results[i];
        kept.operands[i] = kept.results[i] = is_kept;
      }
    }
    return kept;
  }

  // Values from which the results that stay are computed, and what runs in any case.
  static std::unordered_set<const Value*> needed_in(const Graph& body, const std::vector<bool>& results) {
    std::unordered_set<const Value*> needed;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i]) needed.insert(body.outputs()[i].value);
    }
    for (auto place = body.ops().rbegin(); place != body.ops().rend(); ++place) {
      const Op& op = **place;
      const std::vector<Value*> outputs = op.outputs();
      const bool is_needed =
          !op.is_droppable() ||
          std::any_of(outputs.begin(), outputs.end(), [&](const Value* output) { return needed.count(output) != 0; });
      if (is_needed) needed.insert(op.inputs().begin(), op.inputs().end());
    }
    return needed;
  }

  // -- the new op
  std::unique_ptr<Graph> without_unused(const Graph& body, const Kept& kept) const {
    auto graph = std::make_unique<Graph>(body.name());
    GraphCopier copier(*graph);
    const std::unordered_set<const Value*> needed = needed_in(body, kept.results);
    for (std::size_t i = 0; i < kept.operands.size(); ++i) {
      if (kept.operands[i]) copier.add_input(*input(body, i));
    }
    for (const auto& op : body.ops()) {
      const std::vector<Value*> outputs = op->outputs();
      const bool is_needed =
          std::any_of(outputs.begin(), outputs.end(), [&](const Value* output) { return needed.count(output) != 0; });
      if (is_needed || !op->is_droppable()) copier.copy(*op);
    }
    for (std::size_t i = 0; i < kept.results.size(); ++i) {
      if (kept.results[i]) graph->add_output(body.outputs()[i].name, copier[body.outputs()[i].value]);
    }
    return graph;
  }

  Attrs attrs_for(const Kept& kept, std::vector<std::unique_ptr<Graph>> bodies) const {
    Attrs attrs = with_bodies(op_.attrs(), std::move(bodies));
    if (!op_.is("loop")) return attrs;
    auto loop = attrs.as<LoopAttrs>();
    const auto begin = kept.operands.begin();
    const auto end_of_carried = begin + loop.carried, end_of_rows = end_of_carried + loop.sliced;
    loop.carried = std::count(begin, end_of_carried, true);
    loop.sliced = std::count(end_of_carried, end_of_rows, true);
    return Attrs::of(std::move(loop));
  }

  void replace(const Kept& kept) {
    std::vector<std::unique_ptr<Graph>> bodies;
    for (const auto& body : bodies_) bodies.push_back(without_unused(*body, kept));
    std::vector<Value*> operands(op_.inputs().begin(), op_.inputs().begin() + static_cast<std::ptrdiff_t>(first_));
    for (std::size_t i = 0; i < kept.operands.size(); ++i) {
      if (kept.operands[i]) operands.push_back(op_.input(first_ + i));
    }
    Op* made = graph_.add_op(op_.def(), std::move(operands), attrs_for(kept, std::move(bodies)), &op_);
    made->take_stamps(op_);
    std::size_t next = 0;
    for (std::size_t i = 0; i < kept.results.size(); ++i) {
      if (kept.results[i]) replace_value(graph_, op_.output(i), made->output(next++));
    }
    graph_.erase(&op_);
  }

  Graph& graph_;
  Op& op_;
  const PassContext& context_;
  std::size_t first_;  // operand that the bodies get
  std::size_t carried_;
  std::vector<std::unique_ptr<Graph>> bodies_;
};

}  // namespace

void simplify_bodies(Graph& graph, const PassContext& context) {
  // Backwards: what one does not need any more is not needed of those before it.
  std::vector<Op*> owners;
  for (const auto& op : graph.ops()) {
    if (op->def().does_own_graphs()) owners.push_back(op.get());
  }
  for (auto op = owners.rbegin(); op != owners.rend(); ++op) OpSimplifier(graph, **op, context).run();
}

const Condition kBodiesSimplified{"bodies_simplified", [](const Graph& graph) -> std::string {
                                    for (const auto& op : graph.ops()) {
                                      for (const Graph* body : bodies_of(*op)) {
                                        for (const Condition* condition : {&kNoMarkers, &kNothingDead}) {
                                          std::string problem = condition->violation(*body);
                                          if (!problem.empty()) return problem;
                                        }
                                        std::string problem = kBodiesSimplified.violation(*body);
                                        if (!problem.empty()) return problem;
                                      }
                                    }
                                    return "";
                                  }};

}  // namespace aspen
