#include "aspen/compiler/passes/select_loss.h"

#include <algorithm>

#include "aspen/base/log.h"
#include "aspen/compiler/evaluate.h"
#include "aspen/compiler/passes/rewrite.h"

namespace aspen {
namespace {

std::string listing(const std::vector<Op*>& losses) {
  std::string text;
  for (const Op* op : losses) {
    std::string where = describe(op->location);
    text += fmt::format("\n  {}, captured at {}", to_string(op->input(0)->type()),
                        where.empty() ? "an unknown place" : where);
  }
  return text;
}

// The losses from which no other loss is reached, in graph order; the others are demoted.
std::vector<Op*> final_losses(Graph& graph) {
  std::vector<bool> feeds_loss(graph.num_values(), false);
  std::vector<Op*> final, demoted;
  for (auto place = graph.ops().rbegin(); place != graph.ops().rend(); ++place) {
    Op* op = place->get();
    bool feeds = false;
    for (const Value* output : op->outputs()) feeds = feeds || feeds_loss[output->id()];
    if (op->is("loss")) (feeds ? demoted : final).push_back(op);
    if (!feeds && !op->is("loss")) continue;
    for (const Value* input : op->inputs()) {
      if (input != nullptr) feeds_loss[input->id()] = true;
    }
  }
  for (Op* op : demoted) replace_op(graph, op, op->input(0));
  std::reverse(final.begin(), final.end());
  return final;
}

// Whether the value, changed by another op, reaches an output of the graph.
bool is_returned_transformed(const Graph& graph, const Value* root) {
  std::vector<bool> depends(graph.num_values(), false);
  depends[root->id()] = true;
  bool found = false;
  for (const auto& op : graph.ops()) {
    bool reads = std::any_of(op->inputs().begin(), op->inputs().end(),
                             [&](const Value* input) { return input != nullptr && depends[input->id()]; });
    if (!reads) continue;
    for (const Value* output : op->outputs()) {
      depends[output->id()] = true;
      found = found || output->is_output();
    }
  }
  return found;
}

}  // namespace

void select_loss(Graph& graph, const PassContext& context) {
  std::vector<Op*> losses = final_losses(graph);
  if (losses.empty()) {
    throw UserError(
        "Couldn't find a loss in graph {}: a training model computes exactly one. Call one of torch's losses inside "
        "forward, or wrap your own in poptorch.identity_loss.",
        graph.name());
  }
  if (losses.size() > 1) {
    throw UserError(
        "Found {} independent losses; a training model differentiates exactly one. Combine them into one value and "
        "wrap it in poptorch.identity_loss.{}",
        losses.size(), listing(losses));
  }
  Value* root = losses[0]->output();
  if (context.tensor_names != nullptr && root->name().empty()) root->set_name("loss");
  if (root->type().numel() != 1) {
    throw UserError("the loss must have one element; this one is {}. Reduce it with \"mean\" or \"sum\".{}",
                    to_string(root->type()), listing(losses));
  }
  if (is_returned_transformed(graph, root)) {
    log::warn(
        "The loss captured at {} is transformed before it is returned; training differentiates the loss itself, "
        "without what follows it.",
        describe(losses[0]->location));
  }
}

const Condition kSingleLoss{"single_loss", [](const Graph& graph) -> std::string {
                              std::size_t count = 0;
                              for (const auto& op : graph.ops()) {
                                if (!op->is("loss")) continue;
                                ++count;
                                if (op->output()->type().numel() != 1)
                                  return "the loss is " + to_string(op->output()->type());
                              }
                              return count == 1 ? "" : fmt::format("there are {} losses", count);
                            }};

}  // namespace aspen
