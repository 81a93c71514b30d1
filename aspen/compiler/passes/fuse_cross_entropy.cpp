#include "aspen/compiler/passes/fuse_cross_entropy.h"

#include <algorithm>
#include <vector>

#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/nll/nll.h"
#include "aspen/ops/softmax/softmax.h"

namespace aspen {
namespace {

std::vector<Op*> ops_named(const Graph& graph, std::string_view name) {
  std::vector<Op*> result;
  for (const auto& op : graph.ops()) {
    if (op->is(name)) result.push_back(op.get());
  }
  return result;
}

// Whether softmax, or its gradient, runs along the axis of classes.
bool runs_along_classes(const Op& softmax) {
  const TensorType& type = softmax.output()->type();
  const std::int64_t axis = softmax.attrs<SoftmaxAttrs>().axis;
  return type.dtype == DType::kF32 && type.rank() >= 2 && (axis < 0 ? axis + type.rank() : axis) == 1;
}

// -- the gradients ----------------------------------------------------------------------------------------------------

// log_softmax_grad(log_p, nll_grad(target, weight, total, g, log_p)) from the log probabilities.
void fuse_gradients(Graph& graph, Op* gradient) {
  if (!runs_along_classes(*gradient)) return;
  Op* of_loss = gradient->input(1)->producer();
  if (of_loss == nullptr || !of_loss->is("nll_grad") || of_loss->input(4) != gradient->input(0)) return;
  if (!belong_together(*of_loss, *gradient)) return;
  const Value& between = *of_loss->output();
  if (between.users().size() != 1 || between.is_output() || between.is_gradient()) return;
  Builder b(graph);
  b.like(*of_loss);
  b.before = gradient;
  const std::vector<Value*> inputs{
      gradient->input(0), of_loss->input(0), of_loss->input(1), of_loss->input(2), of_loss->input(3), nullptr, nullptr};
  replace_op(graph, gradient, b.make("cross_entropy_grad", inputs, CrossEntropyAttrs{of_loss->attrs<NllAttrs>()}));
  graph.erase(of_loss);
}

// -- the loss ---------------------------------------------------------------------------------------------------------

// The one nll that reads the log probabilities, and the gradients of both; the loss is nullptr if anybody else reads
// them.
struct Users {
  Op* loss = nullptr;
  std::vector<Op*> gradients;
};

bool is_gradient_of(const Op& gradient, const Op& loss) {
  if (!gradient.is("cross_entropy_grad") || gradient.input(3) != loss.output(1)) return false;
  for (std::size_t i : {0, 1, 2}) {
    if (gradient.input(i) != loss.input(i)) return false;
  }
  return Attrs::of(gradient.attrs<CrossEntropyAttrs>().nll) == loss.attrs();
}

Users users_of(const Op& softmax) {
  const Value& log_p = *softmax.output();
  if (log_p.is_output() || log_p.is_gradient()) return {};
  Users result;
  for (Op* user : log_p.users()) {
    if (!user->is("nll")) continue;
    if (result.loss != nullptr) return {};
    result.loss = user;
  }
  if (result.loss == nullptr || !belong_together(softmax, *result.loss)) return {};
  for (Op* user : log_p.users()) {
    if (user == result.loss) continue;
    if (!is_gradient_of(*user, *result.loss)) return {};
    result.gradients.push_back(user);
  }
  return result;
}

void fuse_loss(Graph& graph, Op* softmax) {
  if (!runs_along_classes(*softmax)) return;
  const Users users = users_of(*softmax);
  if (users.loss == nullptr) return;
  Value* x = softmax->input(0);
  Builder b(graph);
  b.like(*users.loss);
  b.before = users.loss;
  const CrossEntropyAttrs attrs{users.loss->attrs<NllAttrs>()};
  const Op* fused = b.emit("cross_entropy", {x, users.loss->input(1), users.loss->input(2)}, attrs);
  for (Op* gradient : users.gradients) {
    b.like(*gradient);
    b.before = gradient;
    const std::vector<Value*> inputs{x,
                                     gradient->input(1),
                                     gradient->input(2),
                                     fused->output(1),
                                     gradient->input(4),
                                     fused->output(2),
                                     fused->output(3)};
    replace_op(graph, gradient, b.make("cross_entropy_grad", inputs, attrs));
  }
  for (std::size_t i : {0, 1}) replace_value(graph, users.loss->output(i), fused->output(i));
  graph.erase(users.loss);
  graph.erase(softmax);
}

}  // namespace

void fuse_cross_entropy(Graph& graph, const PassContext& context) {
  if (context.options.checks_floats) return;
  for (Op* gradient : ops_named(graph, "log_softmax_grad")) fuse_gradients(graph, gradient);
  for (Op* softmax : ops_named(graph, "log_softmax")) fuse_loss(graph, softmax);
}

}  // namespace aspen
