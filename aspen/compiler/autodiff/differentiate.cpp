#include "aspen/compiler/autodiff/differentiate.h"

#include <algorithm>

#include "aspen/compiler/evaluate.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/build.h"
#include "aspen/ops/shape/shape.h"

namespace aspen {
namespace {

class Differentiator {
 public:
  explicit Differentiator(Graph& graph) : graph_(graph), b_(graph), requires_(graph.num_values(), false) {
    b_.backward = true;
  }

  void run() {
    std::vector<Op*> forward;
    for (const auto& op : graph_.ops()) forward.push_back(op.get());
    mark_required(forward);
    Op* loss = *std::find_if(forward.begin(), forward.end(), [](const Op* op) { return op->is("loss"); });
    std::erase(forward, loss);
    Value* root = loss->input(0);
    b_.like(*loss);
    replace_op(graph_, loss, root);
    if (wants_gradient(root)) {
      Value* seed = build::full_like(b_, root, 1);
      seed->set_name(kSeedName);
      add(root, seed);
    }
    for (auto op = forward.rbegin(); op != forward.rend(); ++op) visit(**op);
    name_gradients();
  }

 private:
  bool wants_gradient(const Value* value) const { return value != nullptr && requires_[value->id()]; }

  void mark_required(const std::vector<Op*>& forward) {
    for (const auto& variable : graph_.variables()) {
      requires_[variable->value->id()] = variable->trainable && is_floating(variable->value->dtype());
    }
    for (const Op* op : forward) {
      if (op->no_grad || op->is("detach")) continue;
      bool any = std::any_of(op->inputs().begin(), op->inputs().end(),
                             [&](const Value* input) { return wants_gradient(input); });
      for (const Value* output : op->outputs()) requires_[output->id()] = any && is_floating(output->dtype());
    }
    gradients_.resize(requires_.size(), nullptr);
  }

  // Adds to the gradient of a value; the first contribution is taken as it is.
  void add(Value* value, Value* gradient) {
    Value*& sum = gradients_[value->id()];
    sum = sum == nullptr ? gradient : build::add(b_, sum, gradient);
  }

  void visit(const Op& op) {
    std::vector<Value*> arriving;
    std::vector<bool> needed;
    for (const Value* output : op.outputs()) {
      arriving.push_back(wants_gradient(output) ? gradients_[output->id()] : nullptr);
    }
    for (const Value* input : op.inputs()) needed.push_back(wants_gradient(input));
    bool arrives = std::any_of(arriving.begin(), arriving.end(), [](const Value* g) { return g != nullptr; });
    if (!arrives) return;
    if (!op.def().has_gradient()) {
      std::string where = describe(op.location);
      throw UserError(
          "[{}] has no gradient, and one is needed on the way from the loss to a parameter. Wrap its input "
          "in detach() if none should flow.{}",
          op.name(), where.empty() ? "" : "\n  captured at " + where);
    }
    b_.like(op);
    b_.no_grad = false;
    GradientContext context(b_, op, std::move(arriving), needed);
    op.def().gradient(context);
    for (std::size_t i = 0; i < op.num_inputs(); ++i) {
      Value* gradient = context.gradients[i];
      if (!needed[i] || gradient == nullptr) continue;
      if (gradient->type() != op.input(i)->type()) {
        throw InternalError("the gradient of {} by input {} is {}; the input is {}", op.name(), i,
                            to_string(gradient->type()), to_string(op.input(i)->type()));
      }
      add(op.input(i), gradient);
    }
  }

  // A gradient that is no result of a backward op of its own (one value may be the gradient of two parameters)
  // gets one, so that it can carry the name.
  void name_gradients() {
    for (const auto& variable : graph_.variables()) {
      Value* gradient = gradients_[variable->value->id()];
      if (!variable->trainable || gradient == nullptr) continue;
      bool has_own = gradient->producer() != nullptr && gradient->producer()->backward && gradient->name().empty();
      if (!has_own) gradient = b_.make("reshape", {gradient}, ReshapeAttrs{gradient->shape()});
      gradient->set_name(std::string(kGradientPrefix) + variable->name);
    }
  }

  Graph& graph_;
  Builder b_;
  std::vector<bool> requires_;     // by value id, forward values only
  std::vector<Value*> gradients_;  // by value id, forward values only
};

}  // namespace

void differentiate(Graph& graph, const PassContext&) { Differentiator(graph).run(); }

}  // namespace aspen
