#include "aspen/compiler/passes/fuse_batch_last.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "aspen/base/log.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/batch_last/batch_last.h"

namespace aspen {
namespace {

std::vector<Op*> ops_named(const Graph& graph, std::string_view name) {
  std::vector<Op*> result;
  for (const auto& op : graph.ops()) {
    if (op->is(name)) result.push_back(op.get());
  }
  return result;
}

Op* made_by(const Value* value, std::string_view name) {
  Op* op = value->producer();
  return op != nullptr && op->is(name) ? op : nullptr;
}

// The one op that reads a value, if it is of this kind.
Op* only_user(const Value& value, std::string_view name) {
  if (value.users().size() != 1 || value.is_output() || value.is_gradient()) return nullptr;
  Op* user = value.users().front();
  return user->is(name) ? user : nullptr;
}

// -- relu after the maximum -----------------------------------------------------------------------------------------

// The ops relu_grad(relu, max_pool_last_grad(g, place)) that are the gradient of both, one for each use of the places.
// False: relu or places are used otherwise.
bool find_gradients(const Op& relu, const Op& pool, std::vector<Op*>& gradients) {
  const Value &positive = *relu.output(), &place = *pool.output(1);
  if (positive.is_output() || place.is_output()) return false;
  for (const Op* unpool : place.users()) {
    if (!unpool->is("max_pool_last_grad") || unpool->input(1) != &place) return false;
    Op* gradient = only_user(*unpool->output(), "relu_grad");
    if (gradient == nullptr || gradient->input(0) != &positive || gradient->input(1) != unpool->output()) return false;
    gradients.push_back(gradient);
  }
  const auto is_known = [&](const Op* user) {
    return user == &pool || std::find(gradients.begin(), gradients.end(), user) != gradients.end();
  };
  return std::all_of(positive.users().begin(), positive.users().end(), is_known);
}

void put_relu_after(Graph& graph, Op* pool) {
  Op* relu = made_by(pool->input(0), "relu");
  std::vector<Op*> gradients;
  if (relu == nullptr || !find_gradients(*relu, *pool, gradients)) return;
  Builder b(graph);
  b.like(*pool);
  b.before = pool;
  const Op* first = b.emit("max_pool_last", {relu->input(0)}, pool->attrs());
  Value* y = b.make("relu", {first->output(0)});
  for (Op* gradient : gradients) {
    Op* unpool = gradient->input(1)->producer();
    b.like(*unpool);
    b.before = gradient;
    Value* g = b.make("relu_grad", {y, unpool->input(0)});
    Op* last = b.emit("max_pool_last_grad", {g, first->output(1)}, unpool->attrs());
    replace_op(graph, gradient, last->output());
    graph.erase(unpool);
  }
  replace_value(graph, pool->output(0), y);
  graph.erase(pool);
  graph.erase(relu);
}

// -- what follows a convolution ---------------------------------------------------------------------------------------

Op* next_of(const Op& op, std::string_view name) {
  Op* next = only_user(*op.output(), name);
  return next != nullptr && run_together(op, *next) ? next : nullptr;
}

// Whether there was something to fuse.
bool fuse_forward(Graph& graph, Op* conv) {
  auto attrs = conv->attrs<ConvLastAttrs>();
  Op* pool = next_of(*conv, "max_pool_last");
  Op* relu = next_of(pool == nullptr ? *conv : *pool, "relu");
  if (pool == nullptr && relu == nullptr) return false;
  attrs.relu = relu != nullptr;
  Builder b(graph);
  b.like(*conv);
  b.before = conv;
  Op* fused = nullptr;
  if (pool == nullptr) {
    fused = b.emit("conv_last", conv->inputs(), attrs);
  } else {
    fused = b.emit("conv_last_pool", conv->inputs(), ConvLastPoolAttrs{attrs, pool->attrs<MaxPoolLastAttrs>().window});
    replace_value(graph, pool->output(1), fused->output(1));
  }
  Op* last = relu != nullptr ? relu : pool;
  replace_value(graph, last->output(), fused->output());
  for (Op* op : {relu, pool, conv}) {
    if (op != nullptr) graph.erase(op);
  }
  return true;
}

bool fuse_weight_grad(Graph& graph, Op* gradient) {
  Op* unpool = made_by(gradient->input(1), "max_pool_last_grad");
  if (unpool == nullptr || only_user(*unpool->output(), gradient->name()) == nullptr) return false;
  const auto& attrs = gradient->attrs<ConvLastGradAttrs>();
  ConvLastPoolGradAttrs fused_attrs{{attrs.conv, unpool->attrs<MaxPoolLastGradAttrs>().window}, attrs.shape};
  Builder b(graph);
  b.like(*gradient);
  b.before = gradient;
  const Op* fused =
      b.emit("conv_last_pool_weight_grad", {gradient->input(0), unpool->input(0), unpool->input(1)}, fused_attrs);
  for (std::size_t i : {0, 1}) replace_value(graph, gradient->output(i), fused->output(i));
  graph.erase(gradient);
  graph.erase(unpool);
  return true;
}

}  // namespace

void fuse_batch_last(Graph& graph, const PassContext& context) {
  if (context.options.checks_floats) return;
  for (Op* pool : ops_named(graph, "max_pool_last")) put_relu_after(graph, pool);
  int num_forward = 0, num_gradients = 0;
  for (Op* conv : ops_named(graph, "conv_last")) num_forward += fuse_forward(graph, conv) ? 1 : 0;
  for (Op* gradient : ops_named(graph, "conv_last_weight_grad"))
    num_gradients += fuse_weight_grad(graph, gradient) ? 1 : 0;
  if (num_forward + num_gradients == 0) return;
  log::debug("batch last: {} convolutions with what follows them, {} gradients with what comes before them",
             num_forward, num_gradients);
}

}  // namespace aspen
